"""Values as the JSON object that a schema asked for: names to values, without boxes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.schemas import allowed_values, resolved, types_of
from portal.engine.fields.values import number
from portal.page_text import FieldValue


def annotation(specs: Sequence[FieldSpec], values: Sequence[FieldValue], schema: Mapping[str, Any]) -> dict[str, Any]:
    """One object: null for what was not found; a number where the schema asks for one, else text.

    `schema` is the one that the specs came from; its references are followed. Raises InvalidRequest for another.
    """
    return _object(specs, values, schema, schema)


def _object(
    specs: Sequence[FieldSpec], values: Sequence[FieldValue], schema: Mapping[str, Any], root: Mapping[str, Any]
) -> dict[str, Any]:
    found: dict[str, list[FieldValue]] = {}
    for value in values:
        found.setdefault(value.name, []).append(value)
    properties = resolved(schema, root).get("properties") or {}
    return {
        spec.name: _annotated(spec, found.get(spec.name, []), resolved(properties.get(spec.name, {}), root), root)
        for spec in specs
    }


def _annotated(
    spec: FieldSpec, values: Sequence[FieldValue], property: Mapping[str, Any], root: Mapping[str, Any]
) -> Any:
    items = resolved(property.get("items") or {}, root)
    if spec.type is FieldType.ROWS:
        return [_object(spec.children, row, items, root) for value in values for row in value.rows]
    if spec.many:
        return [_scalar(spec, value.value, items) for value in values if value.value is not None]
    return _scalar(spec, values[0].value if values else None, property)


def _scalar(spec: FieldSpec, value: str | None, property: Mapping[str, Any]) -> Any:
    if value is None:
        return None
    for one in allowed_values(spec.name, property):  # as the schema has it: a number, its own capitals
        if str(one).casefold() == value.casefold():
            return one
    wanted, amount = types_of(property), number(value)
    if amount is None or not {"number", "integer"} & set(wanted) or "string" in wanted:
        return value
    return int(amount) if amount == amount.to_integral_value() and "integer" in wanted else float(amount)
