"""Values as the JSON object that a schema asked for: names to values, without boxes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from portal.domain import FieldSpec, FieldType, FieldValue

_NUMBERS = frozenset({FieldType.MONEY, FieldType.NUMBER})


def annotation(specs: Sequence[FieldSpec], values: Sequence[FieldValue], schema: Mapping[str, Any]) -> dict[str, Any]:
    """One object: null for what was not found; a number where the schema asks for one, else text."""
    found: dict[str, list[FieldValue]] = {}
    for value in values:
        found.setdefault(value.name, []).append(value)
    properties = schema.get("properties") or {}
    return {spec.name: _annotated(spec, found.get(spec.name, []), properties.get(spec.name) or {}) for spec in specs}


def _annotated(spec: FieldSpec, values: Sequence[FieldValue], property: Mapping[str, Any]) -> Any:
    items = property.get("items") if isinstance(property.get("items"), Mapping) else {}
    if spec.type is FieldType.ROWS:
        return [annotation(spec.children, row, items or {}) for value in values for row in value.rows]
    if spec.many:
        return [_scalar(spec, value.value, items or {}) for value in values if value.value is not None]
    return _scalar(spec, values[0].value if values else None, property)


def _scalar(spec: FieldSpec, value: str | None, property: Mapping[str, Any]) -> Any:
    wanted = str(property.get("type")) + str(property.get("anyOf"))
    if value is None or spec.type not in _NUMBERS or not ("number" in wanted or "integer" in wanted):
        return value
    number = Decimal(value)
    return int(number) if number == number.to_integral_value() and "integer" in wanted else float(number)
