"""/openapi.json and /docs: the reference of the API, rendered here, so that no browser is sent elsewhere for it.

The page is plain HTML made from the OpenAPI document; it needs no script and asks for one local style sheet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from portal.api.contract import REFUSALS
from portal.api.examples import MISTRAL_PYTHON, OPENAI_PYTHON, with_base
from portal.results.render import markdown_to_html

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_METHODS = ("get", "post", "put", "patch", "delete")
_MAX_DEPTH = 3
_BOUNDS = (
    ("exclusiveMinimum", "more than {}"),
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} items"),
)
_WRAP = re.compile(r"(?<!\n)\n(?![\n-])")


@dataclass(frozen=True)
class Row:
    """A parameter or a field as a table shows it; `name` is dotted inside objects, `[]` marks lists."""

    name: str
    kind: str
    is_required: bool
    description: Markup


@dataclass(frozen=True)
class Answer:
    """A status with what comes with it."""

    status: str
    phrase: str
    description: Markup
    media_types: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Operation:
    """A route as the page shows it."""

    anchor: str
    method: str
    path: str
    summary: str
    description: Markup
    needs_key: bool
    parameters: tuple[Row, ...]
    body_type: str | None
    body: tuple[Row, ...]
    answers: tuple[Answer, ...]
    curl: str | None


def reference_page(document: dict[str, Any], base_url: str) -> str:
    """The whole page for an OpenAPI document."""
    operations = list(_operations(document))
    groups = [
        (tag["name"], _prose(tag["description"]), [operation for name, operation in operations if name == tag["name"]])
        for tag in document["tags"]
    ]
    return _ENVIRONMENT.get_template("reference.html.j2").render(
        title=document["info"]["title"],
        introduction=_prose(document["info"]["description"]),
        base_url=base_url,
        groups=groups,
        refusals=sorted(REFUSALS.items(), key=lambda item: item[1].status),
        mistral_python=with_base(MISTRAL_PYTHON, base_url),
        openai_python=with_base(OPENAI_PYTHON, base_url),
    )


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, Operation]]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield methods[method]["tags"][0], _operation(path, method, methods[method], schemas)


def _operation(path: str, method: str, raw: dict[str, Any], schemas: dict[str, Any]) -> Operation:
    media_type, body = _first_content(raw.get("requestBody", {}))
    samples = raw.get("x-codeSamples", [])
    return Operation(
        anchor=raw["operationId"],
        method=method.upper(),
        path=path,
        summary=raw["summary"],
        description=_prose(raw.get("description", "")),
        needs_key="security" in raw,
        parameters=tuple(_parameter(each, schemas) for each in raw.get("parameters", ())),
        body_type=media_type,
        body=tuple(_rows(body, schemas)),
        answers=tuple(_answer(status, each, schemas) for status, each in sorted(raw["responses"].items())),
        curl=samples[0]["source"] if samples else None,
    )


def _parameter(raw: dict[str, Any], schemas: dict[str, Any]) -> Row:
    kind = _described_kind(raw["schema"], schemas)
    name = f"{raw['name']} ({raw['in']})"
    return Row(name, kind, raw.get("required", False), _prose(raw.get("description", "")))


def _answer(status: str, raw: dict[str, Any], schemas: dict[str, Any]) -> Answer:
    content = raw.get("content", {})
    _, schema = _first_content(raw)
    is_problem = int(status) >= HTTPStatus.BAD_REQUEST
    return Answer(
        status=status,
        phrase=HTTPStatus(int(status)).phrase,
        description=_prose(raw["description"]),
        media_types=tuple(content),
        rows=() if is_problem else tuple(_rows(schema, schemas)),
    )


def _first_content(raw: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    for media_type, content in raw.get("content", {}).items():
        return media_type, content.get("schema", {})
    return None, {}


def _rows(schema: dict[str, Any], schemas: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[Row]:
    schema, is_list = _unwrapped(schema, schemas)
    if is_list and prefix:
        prefix += "[]"
    for name, inner in schema.get("properties", {}).items():
        full = f"{prefix}.{name}" if prefix else name
        description = inner.get("description") or _resolved(inner, schemas).get("description", "")
        yield Row(full, _described_kind(inner, schemas), name in schema.get("required", ()), _prose(description))
        if depth < _MAX_DEPTH:
            yield from _rows(inner, schemas, full, depth + 1)


def _unwrapped(schema: dict[str, Any], schemas: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The object inside references, `or null` and lists, and whether a list was among them."""
    schema = _resolved(schema, schemas)
    if "contentSchema" in schema:  # JSON inside a text, as in the part `options` of a form
        return _resolved(schema["contentSchema"], schemas), False
    if "items" in schema:
        return _resolved(schema["items"], schemas), True
    return schema, False


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(choices) == 1:
        return _resolved(choices[0], schemas)
    if "$ref" in schema:
        return _resolved(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return schema


def _described_kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The kind with its bounds and its default."""
    words = [_kind(schema, schemas), *_bounds(schema)]
    for choice in schema.get("anyOf", ()):
        words += _bounds(choice)
    if isinstance(schema.get("default"), str | int | float):
        words.append(f"default {json.dumps(schema['default']).strip(chr(34))}")
    elif isinstance(schema.get("default"), list):
        words.append(f"default {', '.join(map(str, schema['default']))}")
    return ", ".join(dict.fromkeys(words))


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    """What a value may be, in words: of the keywords that the API's own schemas use."""
    for keyword, words in _BOUNDS:
        if keyword in schema:
            yield words.format(schema[keyword])


def _kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    for joiner in ("anyOf", "oneOf"):
        if joiner in schema:
            return " or ".join(dict.fromkeys(_kind(each, schemas) for each in schema[joiner]))
    inner = _resolved(schema, schemas)
    if "enum" in inner:
        return " | ".join(str(value) for value in inner["enum"])
    if "const" in inner:
        return f'"{inner["const"]}"'
    if inner.get("type") == "array":
        return f"list of {_kind(inner.get('items', {}), schemas)}"
    return str(inner.get("format") or inner.get("type", "any"))


def _prose(text: str) -> Markup:
    text = _WRAP.sub(" ", text)  # the renderer keeps line ends, as OCR text needs them
    return Markup(markdown_to_html(text))  # noqa: S704 - the renderer's output is sanitized
