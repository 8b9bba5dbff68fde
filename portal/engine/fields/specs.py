"""Field specs from what people send (names, rows of a template), and to JSON and back. Pure.

What cannot be kept is refused by name. A JSON Schema is read by portal.engine.fields.schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.bounds import check_formulas, check_number, check_patterns, number_of_rows
from portal.engine.fields.labels import folded, name_key, vocabulary
from portal.errors import InvalidRequest
from portal.texts import is_storable

MAX_FIELDS = 100
MAX_NAME = 100
MAX_WORDS = 1000
MAX_ALLOWED = 200
_LARGEST = 10**100
_SCALARS = {
    **{name: FieldType(name) for name in ("text", "date", "money", "number", "id", "iban", "email", "phone")},
    "time": FieldType.TEXT,
}
_ADDED_UP = (FieldType.NUMBER, FieldType.MONEY)
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
    name = name[:MAX_NAME]
    known = vocabulary().of(name)
    if known:
        sure = [meaning for meaning in known if not meaning.is_weak] or known
        return vocabulary().types[sure[0].concept]
    key = folded(name.replace("_", " "))
    return next((type for type, ends in _ENDINGS if any(key.endswith(folded(end)) for end in ends)), FieldType.TEXT)


def specs_from_names(names: Iterable[str]) -> tuple[FieldSpec, ...]:
    """Specs of bare names, each once, typed by what the name says. Raises InvalidRequest."""
    found = list(dict.fromkeys(name.strip() for name in names))
    check_number(len(found))
    return checked(FieldSpec(name, type_of_name(name)) for name in found)


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
    return checked(_from_rows(rows, is_stored=False))


def stored_specs(rows: Sequence[Any]) -> tuple[FieldSpec, ...]:
    """The specs of a job or a template that is stored: what is refused today may have been taken when it came."""
    return tuple(_from_rows(rows, is_stored=True))


def _from_rows(rows: Sequence[Any], *, is_stored: bool) -> list[FieldSpec]:
    if not isinstance(rows, list | tuple):
        raise refused("fields", "must be a list of rows")
    if not is_stored:
        check_number(number_of_rows(rows))
    return [from_row(row) for row in rows]


def checked(specs: Iterable[FieldSpec], *, is_nested: bool = False) -> tuple[FieldSpec, ...]:
    """The specs, whose names are unique and whose rules can be kept. Raises InvalidRequest."""
    found = tuple(specs)
    if len(found) > MAX_FIELDS:
        raise refused("fields", f"{len(found)} are too many, at most {MAX_FIELDS}")
    if not is_nested:
        check_number(sum(1 + len(spec.children) for spec in found))
        check_formulas(found)
    for spec in found:
        _refuse_unstorable(spec)
        _check(spec, is_nested=is_nested)
    _check_names(found)
    for spec in found:
        _check_order(spec, found)
        _check_sums(spec, found)
    if not is_nested:
        check_patterns(found)
    return found


def _refuse_unstorable(spec: FieldSpec) -> None:
    """A template and a job keep each text of a spec, and give it back in JSON."""
    texts = [*spec.allowed, *spec.sum_of, *(getattr(spec, key) or "" for key in _TEXTS)]
    if not all(map(is_storable, texts)):
        raise refused(spec.name, "a text has a NUL or half of a surrogate pair in it")


def _check(spec: FieldSpec, *, is_nested: bool) -> None:
    if not spec.name or len(spec.name) > MAX_NAME or not spec.name.isprintable() or spec.name != spec.name.strip():
        raise refused(spec.name or "fields", f"a field's name has 1 to {MAX_NAME} printable characters")
    for key in ("minimum", "maximum"):
        _check_bound(spec, key, getattr(spec, key))
    if is_nested and spec.many:
        raise refused(spec.name, "a column of rows has one value in each row")
    if spec.type is FieldType.ROWS:
        if is_nested or not spec.children:
            raise refused(spec.name, "rows need children, and have no rows within")
        checked(spec.children, is_nested=True)
    elif spec.children:
        raise refused(spec.name, "only the type 'rows' has children")


def _check_names(specs: Sequence[FieldSpec]) -> None:
    """Names are looked for on pages and in answers without case, accents and marks: so they must differ in more."""
    names: set[str] = set()
    keys: dict[str, str] = {}
    for spec in specs:
        if spec.name in names:
            raise refused(spec.name, "this name stands twice")
        names.add(spec.name)
        key = name_key(spec.name)
        if key in keys:
            raise refused(spec.name, f"it differs from '{keys[key]}' in nothing that pages tell apart")
        if key:
            keys[key] = spec.name


def _check_order(spec: FieldSpec, specs: Sequence[FieldSpec]) -> None:
    if not spec.not_before:
        return
    other = next((one for one in specs if one.name == spec.not_before), None)
    if other is None:
        raise refused(spec.name, f"not_before names no field: '{spec.not_before}'")
    if (spec.type, other.type) != (FieldType.DATE, FieldType.DATE):
        raise refused(spec.name, f"not_before compares dates, and {spec.type} and {other.type} are not two")


def _check_sums(spec: FieldSpec, specs: Sequence[FieldSpec]) -> None:
    if spec.sum_of and spec.type not in _ADDED_UP:
        raise refused(spec.name, f"sum_of belongs to the types number and money, not to {spec.type}")
    types = {one.name: one.type for one in specs}
    types |= {f"{one.name}.{child.name}": child.type for one in specs for child in one.children}
    for part in (part.strip() for formula in spec.sum_of for part in formula.split("+")):
        if part not in types:
            raise refused(spec.name, f"sum_of names no field: '{part}'")
        if types[part] not in _ADDED_UP:
            raise refused(spec.name, f"sum_of adds up numbers and money, and '{part}' is {types[part]}")


def _check_bound(spec: FieldSpec, key: str, bound: str | None) -> None:
    if bound is None:
        return
    if spec.type is FieldType.DATE:
        if not _is_day(bound):
            raise refused(spec.name, f"{key} of a date is a day like 2026-11-30")
    elif spec.type not in (FieldType.NUMBER, FieldType.MONEY):
        raise refused(spec.name, f"{key} belongs to the types number, money and date, not to {spec.type}")
    elif not _is_finite(bound):
        raise refused(spec.name, f"{key} is a number like 12.5")


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


def from_row(row: Any, *, depth: int = 0) -> FieldSpec:
    """The spec of one row, its keys checked each for itself. Raises InvalidRequest."""
    if isinstance(row, str):
        return FieldSpec(row.strip(), type_of_name(row))
    if not isinstance(row, Mapping):
        raise refused("fields", "each row is an object with a name")
    name = row.get("name")
    if not isinstance(name, str):
        raise refused("fields", "a row has no name")
    unknown = next((key for key in row if key not in _KEYS), None)
    if unknown is not None:
        raise refused(name, f"'{unknown}' is none of {', '.join(sorted(_KEYS))}")
    return FieldSpec(
        name=name.strip(),
        type=named_type(row.get("type"), name),
        required=_flag(row, "required", name),
        many=_flag(row, "many", name),
        description=text_of(row, "description", name) or "",
        allowed=_list(row, "allowed", name),
        pattern=text_of(row, "pattern", name),
        minimum=text_of(row, "minimum", name),
        maximum=text_of(row, "maximum", name),
        not_before=text_of(row, "not_before", name),
        sum_of=_list(row, "sum_of", name),
        children=_children(row.get("children"), name, depth),
    )


def _children(rows: Any, name: str, depth: int) -> tuple[FieldSpec, ...]:
    if not rows:
        return ()
    if depth:
        raise refused(name, "rows have no rows within")
    if not isinstance(rows, list):
        raise refused(name, "children are a list of rows")
    return tuple(from_row(row, depth=depth + 1) for row in rows[: MAX_FIELDS + 1])


def named_type(value: Any, name: str) -> FieldType:
    """The type of that name; by the field's own name where there is none. Raises InvalidRequest."""
    if value is None or value == "":
        return type_of_name(name)
    try:
        return _SCALARS.get(str(value)) or FieldType(str(value))
    except ValueError:
        raise refused(name, f"type must be one of: {', '.join(FieldType)}") from None


def _flag(row: Mapping[str, Any], key: str, name: str) -> bool:
    value = row.get(key, False)
    if not isinstance(value, bool):
        raise refused(name, f"{key} must be true or false")
    return value


def text_of(row: Mapping[str, Any], key: str, name: str) -> str | None:
    """What the row says under that key, None for nothing. Raises InvalidRequest for what is no text."""
    value = row.get(key)
    if value is None or value == "":
        return None
    text = _scalar_text(value)
    if text is None or len(text) > MAX_WORDS:
        raise refused(name, f"{key} must be a text of at most {MAX_WORDS} characters")
    return text


def _scalar_text(value: Any) -> str | None:
    """A text or a number as text; None for anything else, also for what is no sane number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return None
    return str(value)


def _list(row: Mapping[str, Any], key: str, name: str) -> tuple[str, ...]:
    value = row.get(key)
    if value is None or value == "":
        return ()
    texts = [_scalar_text(one) for one in value] if isinstance(value, list) and len(value) <= MAX_ALLOWED else [None]
    if not all(text is not None and len(text) <= MAX_WORDS for text in texts):
        raise refused(name, f"{key} must be a list of at most {MAX_ALLOWED} texts")
    return tuple(text for text in texts if text is not None)


def refused(name: str, reason: str) -> InvalidRequest:
    """The refusal of the field of that name."""
    words = f"Field '{name[:MAX_NAME]}': {reason}."
    # A name may hold what no answer can be written in: lone surrogates.
    return InvalidRequest(
        words.encode("utf-8", "backslashreplace").decode(),
        remedy="Change the field and send it again; /docs shows an example.",
    )
