"""Field specs from what people send (names, a JSON Schema, rows of a template), and to JSON and back. Pure.

What cannot be kept is refused by name: a schema's keyword that would change nothing is not ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.labels import folded, vocabulary
from portal.engine.fields.patterns import check_pattern
from portal.errors import InvalidRequest
from portal.texts import is_storable

MAX_FIELDS = 100
MAX_NAME = 100
MAX_WORDS = 1000
MAX_ALLOWED = 200
_SCALARS = {
    **{name: FieldType(name) for name in ("text", "date", "money", "number", "id", "iban", "email", "phone")},
    "time": FieldType.TEXT,
}
_FORMATS = {"date": FieldType.DATE, "email": FieldType.EMAIL, "iban": FieldType.IBAN, "phone": FieldType.PHONE}
_ENDINGS = (
    (FieldType.DATE, ("date", "datum", "dato", "fecha", "data", "日", "日期", "年月日")),
    (
        FieldType.MONEY,
        ("amount", "total", "price", "betrag", "summe", "montant", "importe", "importo", "valor", "bedrag"),
    ),
    (
        FieldType.MONEY,
        ("beløb", "belopp", "summa", "金額", "金额", "額", "额", "cost", "fee", "prix", "precio", "prezzo"),
    ),
    (FieldType.ID, ("number", "no", "nr", "nummer", "numero", "id", "code", "番号", "号码", "编号", "号", "reference")),
    (FieldType.NUMBER, ("quantity", "count", "menge", "anzahl", "数量")),
)
_TEXTS = ("name", "description", "not_before", "pattern", "minimum", "maximum")
_KEYS = frozenset({*_TEXTS, "type", "required", "many", "allowed", "sum_of", "children"})


def type_of_name(name: str) -> FieldType:
    """The likeliest type of a field that is only named."""
    known = vocabulary().of(name)
    if known:
        sure = [meaning for meaning in known if not meaning.is_weak] or known
        return vocabulary().types[sure[0].concept]
    key = folded(name.replace("_", " "))
    return next((type for type, ends in _ENDINGS if any(key.endswith(folded(end)) for end in ends)), FieldType.TEXT)


def specs_from_names(names: Iterable[str]) -> tuple[FieldSpec, ...]:
    """Specs of bare names, each once, typed by what the name says. Raises InvalidRequest."""
    return checked(FieldSpec(name, type_of_name(name)) for name in dict.fromkeys(name.strip() for name in names))


def spec_to_json(spec: FieldSpec) -> dict[str, Any]:
    """The spec's row: `name`, `type`, and of the rest what it says."""
    row: dict[str, Any] = {"name": spec.name, "type": spec.type.value}
    for key in ("required", "many", "description", "pattern", "minimum", "maximum", "not_before"):
        if getattr(spec, key):
            row[key] = getattr(spec, key)
    for key in ("allowed", "sum_of"):
        if getattr(spec, key):
            row[key] = list(getattr(spec, key))
    if spec.children:
        row["children"] = [spec_to_json(child) for child in spec.children]
    return row


def specs_to_json(specs: Iterable[FieldSpec]) -> list[dict[str, Any]]:
    """The rows of the specs."""
    return [spec_to_json(spec) for spec in specs]


def specs_from_json(rows: Sequence[Any]) -> tuple[FieldSpec, ...]:
    """Specs from rows, or from bare names as older jobs have them. Raises InvalidRequest naming the row."""
    if not isinstance(rows, list | tuple):
        raise _refused("fields", "must be a list of rows")
    return checked(_from_row(row) for row in rows)


def checked(specs: Iterable[FieldSpec], *, is_nested: bool = False) -> tuple[FieldSpec, ...]:
    """The specs, whose names are unique and whose rules can be kept. Raises InvalidRequest."""
    found = tuple(specs)
    if len(found) > MAX_FIELDS:
        raise _refused("fields", f"{len(found)} are too many, at most {MAX_FIELDS}")
    names = [spec.name for spec in found]
    for spec in found:
        _refuse_unstorable(spec)
        _check(spec, names, is_nested=is_nested)
    return found


def _refuse_unstorable(spec: FieldSpec) -> None:
    """A template and a job keep each text of a spec, and give it back in JSON."""
    texts = [*spec.allowed, *spec.sum_of, *(getattr(spec, key) or "" for key in _TEXTS)]
    if not all(map(is_storable, texts)):
        raise _refused(spec.name, "a text has a NUL or half of a surrogate pair in it")


def _check(spec: FieldSpec, names: Sequence[str], *, is_nested: bool) -> None:
    if not spec.name or len(spec.name) > MAX_NAME or not spec.name.isprintable() or spec.name != spec.name.strip():
        raise _refused(spec.name or "fields", f"a field's name has 1 to {MAX_NAME} printable characters")
    if names.count(spec.name) > 1:
        raise _refused(spec.name, "this name stands twice")
    if spec.pattern:
        check_pattern(spec.pattern)
    for key in ("minimum", "maximum"):
        _check_bound(spec, key, getattr(spec, key))
    if spec.type is FieldType.ROWS:
        if is_nested or not spec.children:
            raise _refused(spec.name, "rows need children, and have no rows within")
        checked(spec.children, is_nested=True)
    elif spec.children:
        raise _refused(spec.name, "only the type 'rows' has children")
    if spec.not_before and spec.not_before not in names:
        raise _refused(spec.name, f"not_before names no field: '{spec.not_before}'")


def _check_bound(spec: FieldSpec, key: str, bound: str | None) -> None:
    if bound is None:
        return
    if spec.type is FieldType.DATE:
        if not _is_day(bound):
            raise _refused(spec.name, f"{key} of a date is a day like 2026-11-30")
    elif spec.type not in (FieldType.NUMBER, FieldType.MONEY):
        raise _refused(spec.name, f"{key} belongs to the types number, money and date, not to {spec.type}")
    elif not _is_finite(bound):
        raise _refused(spec.name, f"{key} is a number like 12.5")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_finite(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _from_row(row: Any) -> FieldSpec:
    if isinstance(row, str):
        return FieldSpec(row.strip(), type_of_name(row))
    if not isinstance(row, Mapping):
        raise _refused("fields", "each row is an object with a name")
    name = row.get("name")
    if not isinstance(name, str):
        raise _refused("fields", "a row has no name")
    unknown = next((key for key in row if key not in _KEYS), None)
    if unknown is not None:
        raise _refused(name, f"'{unknown}' is none of {', '.join(sorted(_KEYS))}")
    return FieldSpec(
        name=name.strip(),
        type=_type(row.get("type"), name),
        required=_flag(row, "required", name),
        many=_flag(row, "many", name),
        description=_text(row, "description", name) or "",
        allowed=_list(row, "allowed", name),
        pattern=_text(row, "pattern", name),
        minimum=_text(row, "minimum", name),
        maximum=_text(row, "maximum", name),
        not_before=_text(row, "not_before", name),
        sum_of=_list(row, "sum_of", name),
        children=tuple(_from_row(child) for child in row.get("children") or ()),
    )


def _type(value: Any, name: str) -> FieldType:
    if value is None or value == "":
        return type_of_name(name)
    try:
        return _SCALARS.get(str(value)) or FieldType(str(value))
    except ValueError:
        raise _refused(name, f"type must be one of: {', '.join(FieldType)}") from None


def _flag(row: Mapping[str, Any], key: str, name: str) -> bool:
    value = row.get(key, False)
    if not isinstance(value, bool):
        raise _refused(name, f"{key} must be true or false")
    return value


def _text(row: Mapping[str, Any], key: str, name: str) -> str | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > MAX_WORDS:
        raise _refused(name, f"{key} must be a text of at most {MAX_WORDS} characters")
    return str(value)


def _list(row: Mapping[str, Any], key: str, name: str) -> tuple[str, ...]:
    value = row.get(key) or []
    if (
        not isinstance(value, list)
        or len(value) > MAX_ALLOWED
        or not all(isinstance(one, str | int | float) for one in value)
    ):
        raise _refused(name, f"{key} must be a list of at most {MAX_ALLOWED} texts")
    return tuple(str(one)[:MAX_WORDS] for one in value)


# JSON Schema

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


def specs_from_schema(schema: Mapping[str, Any]) -> tuple[FieldSpec, ...]:
    """Specs of a JSON Schema: an object of scalars, arrays of scalars, and arrays of objects of scalars.

    `x-type` gives a type that JSON lacks ('money', 'iban' …), `x-not-before` and `x-sum-of` the rules on several
    fields. A name types a string where nothing else does. Raises InvalidRequest naming the property.
    """
    properties = _resolved(schema, schema).get("properties")
    if not isinstance(properties, Mapping):
        raise _refused("schema", "must be an object with properties")
    return checked(_object(schema, schema))


def _object(schema: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[FieldSpec, ...]:
    schema = _resolved(schema, root)
    required = schema.get("required") or []
    specs = []
    for name, property in (schema.get("properties") or {}).items():
        if not isinstance(property, Mapping):
            raise _refused(name, "must be an object")
        specs.append(replace(_property(str(name), property, root), required=name in required))
    return tuple(specs)


def _property(name: str, property: Mapping[str, Any], root: Mapping[str, Any]) -> FieldSpec:
    property = _resolved(property, root)
    if _json_type(property) != "array":
        return _scalar(name, property)
    items = _resolved(property.get("items") or {}, root)
    if _json_type(items) == "object" or "properties" in items:
        children = _object(items, root)
        return FieldSpec(name, FieldType.ROWS, description=str(property.get("description") or ""), children=children)
    return replace(
        _scalar(name, {**items, **{key: property[key] for key in ("description",) if key in property}}), many=True
    )


def _scalar(name: str, property: Mapping[str, Any]) -> FieldSpec:
    if _json_type(property) == "object" or "properties" in property:
        raise _refused(name, "an object in an object is not offered; use an array of objects, or a flat name")
    unknown = next((key for key in property if key not in _SCALAR_KEYWORDS | _IGNORED), None)
    if unknown is not None:
        raise _refused(name, f"the keyword '{unknown}' is not offered")
    allowed = (
        [property["const"]] if "const" in property else [one for one in property.get("enum") or [] if one is not None]
    )
    row = {
        "name": name,
        "type": _scalar_type(name, property).value,
        "description": property.get("description"),
        "allowed": [str(one) for one in allowed],
        "pattern": property.get("pattern"),
        "minimum": property.get("minimum"),
        "maximum": property.get("maximum"),
        "not_before": property.get("x-not-before"),
        "sum_of": property.get("x-sum-of"),
    }
    return _from_row(row)


def _scalar_type(name: str, property: Mapping[str, Any]) -> FieldType:
    if "x-type" in property:
        return _type(property["x-type"], name)
    if property.get("format") in _FORMATS:
        return _FORMATS[property["format"]]
    named = type_of_name(name)
    if _json_type(property) in ("number", "integer"):
        return FieldType.MONEY if named is FieldType.MONEY else FieldType.NUMBER
    if "enum" in property or "const" in property:
        return FieldType.TEXT
    return named


def _json_type(property: Mapping[str, Any]) -> str | None:
    """The one type beside null."""
    type = property.get("type")
    if isinstance(type, list):
        named = [one for one in type if one != "null"]
        return str(named[0]) if len(named) == 1 else None
    return None if type is None else str(type)


def _resolved(schema: Any, root: Mapping[str, Any], *, depth: int = 0) -> Mapping[str, Any]:
    """The schema with its own '#/…' references, and `anyOf` with null, as pydantic writes optional values, undone."""
    if not isinstance(schema, Mapping) or depth > 8:
        raise _refused("schema", "a part of it is no object, or refers to itself")
    if "$ref" in schema:
        target: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            target = target.get(part) if isinstance(target, Mapping) else None
        return {**_resolved(target, root, depth=depth + 1), **{key: schema[key] for key in schema if key != "$ref"}}
    if "anyOf" in schema:
        real = [one for one in schema["anyOf"] if isinstance(one, Mapping) and one.get("type") != "null"]
        if len(real) == 1:
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            return {**_resolved(real[0], root, depth=depth + 1), **rest}
    return schema


def _refused(name: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"Field '{name[:MAX_NAME]}': {reason}.", remedy="Change the field and send it again; /docs shows an example."
    )
