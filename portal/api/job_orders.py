"""The plain parts of a job's form (`task`, `fields`, `template`, `options`) become an Order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from portal.api.problems import first_invalid, invalid_parameter
from portal.domain import FieldSpec, Mode, Task, TaskPrompt
from portal.engine.fields.schemas import specs_from_schema
from portal.engine.fields.specs import specs_from_json, specs_from_names
from portal.errors import InvalidRequest
from portal.jobs.context import DEFAULT
from portal.jobs.page_numbers import MAX_TEXT_LENGTH, parse_page_numbers
from portal.jobs.submission import Order
from portal.jobs.templates import Template
from portal.languages import language_code

TEXT_NAMES = frozenset({"task", "fields", "schema", "template", "options"})

FindTemplate = Callable[[str], Template]


def _printable(text: str) -> str:
    """What is stored must be storable: Postgres takes no NUL, and a half of a surrogate pair is no text."""
    if not text.isprintable():
        raise ValueError("has characters that cannot be shown")
    return text


_FieldName = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100), AfterValidator(_printable)
]
_FIELD_NAMES = TypeAdapter(Annotated[list[_FieldName], Field(max_length=100)])


class JobOptions(BaseModel):
    """The form part `options`, a JSON object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: Annotated[str, Field(max_length=100, description="An id of /v1/models, a checkpoint, or 'default'")] = (
        DEFAULT
    )
    pages: Annotated[
        str | None,
        Field(
            max_length=MAX_TEXT_LENGTH,
            description="Pages of each file, a text, counted from 1: '1-3,7'; all when left out. "
            "(POST /v1/ocr counts from 0.)",
        ),
    ] = None
    language: Annotated[
        Annotated[str, AfterValidator(_printable)] | None,
        Field(max_length=40, description="Target language of the task 'translate': a code or an English name"),
    ] = None
    mode: Annotated[
        Mode | None,
        Field(
            description="How 'extract' is asked; /v1/models lists the modes of each engine. A document when left out."
        ),
    ] = None
    fresh: Annotated[
        bool,
        Field(
            strict=True,
            description="Read pages also where your tenant has an identical page's text already, which is free",
        ),
    ] = False


def order_from(texts: Mapping[str, str], *, max_pages: int, find_template: FindTemplate) -> Order:
    """The order that a form's plain parts describe.

    Raises InvalidRequest naming the part, and what `find_template` raises for an unknown name.
    """
    options = _options(texts.get("options", ""))
    prompt = _prompt(texts, options, find_template)
    _refuse_unused(prompt)
    return Order(
        prompt=prompt,
        engine=options.engine,
        page_numbers=_pages(options.pages, max_pages),
        is_fresh=options.fresh,
    )


def _prompt(texts: Mapping[str, str], options: JobOptions, find_template: FindTemplate) -> TaskPrompt:
    task, name = _task(texts.get("task", "")), texts.get("template", "").strip()
    given = [part for part in ("fields", "schema", "template") if texts.get(part, "").strip()]
    if given and task is not Task.FIELDS:
        raise invalid_parameter(("body", given[0]), f"belongs to the task '{Task.FIELDS}', not to '{task}'")
    if len(given) > 1:
        raise invalid_parameter(("body", given[1]), f"cannot be sent together with '{given[0]}'")
    template = find_template(name) if name else None
    return TaskPrompt(
        task=task,
        fields=template.specs if template else _fields(texts.get("schema", "") or texts.get("fields", "")),
        language=_language(options.language),
        mode=options.mode or Mode.DOCUMENT,
        template=template.ref if template else None,
    )


def _task(text: str) -> Task:
    try:
        return Task(text.strip() or Task.EXTRACT)
    except ValueError:
        raise invalid_parameter(("body", "task"), f"must be one of: {', '.join(Task)}") from None


def _fields(text: str) -> tuple[FieldSpec, ...]:
    """Names with commas, a JSON list of names or of rows as templates have them, or a JSON Schema."""
    if text.lstrip().startswith("{"):
        return specs_from_schema(cast("dict[str, Any]", _json(text, "fields")))
    names = _json(text, "fields") if text.lstrip().startswith("[") else [one for one in text.split(",") if one.strip()]
    if isinstance(names, list) and any(isinstance(one, dict) for one in names):
        return specs_from_json(names)
    try:
        return specs_from_names(_FIELD_NAMES.validate_python(names))
    except ValidationError as error:
        raise _named("fields", error) from None


def _options(text: str) -> JobOptions:
    if not text.strip():
        return JobOptions()
    try:
        return JobOptions.model_validate(_json(text, "options"))
    except ValidationError as error:
        raise _named("options", error) from None


def _pages(text: str | None, max_pages: int) -> tuple[int, ...] | None:
    if text is None or not text.strip():
        return None
    try:
        return parse_page_numbers(text, first=1, limit=max_pages)
    except ValueError as error:
        raise invalid_parameter(("body", "options", "pages"), str(error)) from None


def _refuse_unused(prompt: TaskPrompt) -> None:
    if prompt.mode is not Mode.DOCUMENT and prompt.task is not Task.EXTRACT:
        raise invalid_parameter(
            ("body", "options", "mode"), f"belongs to the task '{Task.EXTRACT}', not to '{prompt.task}'"
        )
    if prompt.language and prompt.task is not Task.TRANSLATE:
        raise invalid_parameter(
            ("body", "options", "language"), f"belongs to the task '{Task.TRANSLATE}', not to '{prompt.task}'"
        )


def _language(text: str | None) -> str | None:
    if text is None or not text.strip():
        return None
    code = language_code(text)
    if code is None:
        raise invalid_parameter(
            ("body", "options", "language"), "is no language that the portal knows; write a code like 'en' or 'de'"
        )
    return code


def _json(text: str, name: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise invalid_parameter(("body", name), "is not valid JSON") from None


def _named(name: str, error: ValidationError) -> InvalidRequest:
    found = error.errors(include_input=False, include_context=False, include_url=False)
    return first_invalid([{**found[0], "loc": ("body", name, *found[0]["loc"])}])
