"""Field specs from a JSON Schema, as structured-output clients send it. Pure.

What cannot be kept is refused by name: a keyword that would change a value is not ignored, and what is no JSON Schema
at all is told so. Specs and rows are in portal.engine.fields.specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.bounds import check_number
from portal.engine.fields.specs import (
    MAX_ALLOWED,
    MAX_FIELDS,
    checked,
    from_row,
    named_type,
    refused,
    text_of,
    type_of_name,
)

_FORMATS = {"date": FieldType.DATE, "email": FieldType.EMAIL, "iban": FieldType.IBAN, "phone": FieldType.PHONE}
_IGNORED = frozenset({"$schema", "$id", "title", "additionalProperties", "examples", "default", "$defs", "definitions"})
_SCALAR_KEYWORDS = frozenset(
    {
        "type",
        "description",
        "enum",
        "const",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "x-type",
        "x-not-before",
        "x-sum-of",
    }
)
_SCALARS: Final = frozenset({"string", "number", "integer"})
_MAX_REFERENCES = 8
_MAX_KEYWORDS = 100


def specs_from_schema(schema: Any) -> tuple[FieldSpec, ...]:
    """Specs of a JSON Schema: an object of scalars, arrays of scalars, and arrays of objects of scalars.

    `x-type` gives a type that JSON lacks ('money', 'iban' …), `x-not-before` and `x-sum-of` the rules on several
    fields. A name types a string where nothing else does. Raises InvalidRequest naming the property.
    """
    root = _mapping(schema, "schema")
    if not isinstance(resolved(root, root).get("properties"), Mapping):
        raise refused("schema", "must be an object with properties")
    return checked(_object("schema", root, root))


def resolved(schema: Any, root: Mapping[str, Any], *, depth: int = 0) -> Mapping[str, Any]:
    """The schema with its own '#/…' references, and `anyOf` with null, as pydantic writes optional values, undone.

    Raises InvalidRequest for what is no schema, refers to nothing or to itself.
    """
    if not isinstance(schema, Mapping) or depth > _MAX_REFERENCES:
        raise refused("schema", "a part of it is no object, or refers to itself")
    if len(schema) > _MAX_KEYWORDS:
        raise refused("schema", f"a part of it has more than {_MAX_KEYWORDS} keywords")
    if "$ref" in schema:
        target = _referred(schema["$ref"], root)
        return {**resolved(target, root, depth=depth + 1), **{key: schema[key] for key in schema if key != "$ref"}}
    real = _choices(schema)
    if len(real) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return {**resolved(real[0], root, depth=depth + 1), **rest}
    return schema


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The JSON types that a resolved schema allows beside null; empty where it says none. Raises InvalidRequest."""
    given = schema.get("type")
    named = given if isinstance(given, list) else [] if given is None else [given]
    if not _is_short_list(named) or not all(isinstance(one, str) for one in named):
        raise refused("schema", "a type is a name like 'string', or a list of names")
    return tuple(one for one in named if one != "null") or tuple(named)


def _referred(reference: Any, root: Mapping[str, Any]) -> Any:
    target: Any = root
    for part in str(reference).removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")  # RFC 6901
        target = target.get(name) if isinstance(target, Mapping) else None
    return target


def _choices(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What `anyOf` lets choose from beside null."""
    choices = schema.get("anyOf", [])
    if not _is_short_list(choices) or not all(isinstance(one, Mapping) for one in choices):
        raise refused("schema", "anyOf is a list of schemas")
    return [one for one in choices if one.get("type") != "null"]


def _is_short_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_ALLOWED


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise refused(name, "must be an object")
    return value


def _object(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], *, is_row: bool = False
) -> tuple[FieldSpec, ...]:
    schema = resolved(schema, root)
    required = schema.get("required") or []
    if not _is_short_list(required) or not all(isinstance(one, str) for one in required):
        raise refused(name, f"required is a list of at most {MAX_ALLOWED} names")
    properties = _mapping(schema.get("properties") or {}, name)
    if len(properties) > MAX_FIELDS:
        raise refused(name, f"{len(properties)} properties are too many, at most {MAX_FIELDS}")
    if not is_row:
        check_number(len(properties) + sum(_columns(property, root) for property in properties.values()))
    spaced = next((own for own in map(str, properties) if own != own.strip()), None)
    if spaced is not None:  # a field's name has none, and the answer must have the name that was asked for
        raise refused(spaced, "a property's name has no white space around it")
    return tuple(
        replace(_property(str(own), _mapping(property, str(own)), root, is_row=is_row), required=own in required)
        for own, property in properties.items()
    )


def _columns(property: Any, root: Mapping[str, Any]) -> int:
    """How many columns an array of objects has, before any is read; 0 for anything else."""
    if not isinstance(property, Mapping):
        return 0
    property = resolved(property, root)
    columns = resolved(property.get("items") or {}, root).get("properties")
    return len(columns) if isinstance(columns, Mapping) else 0


def _property(name: str, property: Mapping[str, Any], root: Mapping[str, Any], *, is_row: bool) -> FieldSpec:
    property = resolved(property, root)
    if types_of(property) != ("array",):
        return _scalar(name, property)
    items = resolved(property.get("items") or {}, root)
    if types_of(items) != ("object",) and "properties" not in items:
        own = {"description": property["description"]} if "description" in property else {}
        return replace(_scalar(name, {**items, **own}), many=True)
    if is_row:
        raise refused(name, "rows have no rows within")
    children = _object(name, items, root, is_row=True)
    return FieldSpec(name, FieldType.ROWS, description=text_of(property, "description", name) or "", children=children)


def _scalar(name: str, property: Mapping[str, Any]) -> FieldSpec:
    types = types_of(property)
    if "object" in types or "properties" in property:
        raise refused(name, "an object in an object is not offered; use an array of objects, or a flat name")
    other = next((one for one in types if one not in _SCALARS), None)
    if other is not None:
        raise refused(name, f"the type '{other}' is not offered here; a page has texts and numbers, so ask for those")
    unknown = next((key for key in property if key not in _SCALAR_KEYWORDS | _IGNORED), None)
    if unknown is not None:
        raise refused(name, f"the keyword '{unknown}' is not offered")
    if isinstance(property.get("enum"), list) and not _is_short_list(property["enum"]):
        raise refused(name, f"enum is a list of at most {MAX_ALLOWED} values")
    row = {
        "name": name,
        "type": _scalar_type(name, property, types).value,
        "description": property.get("description"),
        "allowed": allowed_values(name, property),
        "pattern": property.get("pattern"),
        "minimum": property.get("minimum"),
        "maximum": property.get("maximum"),
        "not_before": property.get("x-not-before"),
        "sum_of": property.get("x-sum-of"),
    }
    return from_row(row)


def allowed_values(name: str, property: Mapping[str, Any]) -> list[Any]:
    """The values that `const` or `enum` allows, null left out; empty where neither is there. Raises InvalidRequest."""
    keyword = next((one for one in ("const", "enum") if one in property), None)
    if keyword is None:
        return []
    given = [property["const"]] if keyword == "const" else property["enum"]
    if not isinstance(given, list):
        raise refused(name, "enum is a list of values")
    allowed = [one for one in given if one is not None]
    if not allowed:
        raise refused(name, f"{keyword} allows no value but null, so there is nothing to look for")
    return allowed


def _scalar_type(name: str, property: Mapping[str, Any], types: tuple[str, ...]) -> FieldType:
    if "x-type" in property:
        return named_type(property["x-type"], name)
    form = property.get("format")
    if isinstance(form, str) and form in _FORMATS:
        return _FORMATS[form]
    named = type_of_name(name)
    if types in (("number",), ("integer",)):
        return FieldType.MONEY if named is FieldType.MONEY else FieldType.NUMBER
    if "enum" in property or "const" in property:
        return FieldType.TEXT
    return named
