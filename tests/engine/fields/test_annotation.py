"""The object that a schema asked for, in the schema's own types."""

from __future__ import annotations

from typing import Any

from portal.engine.fields.annotation import annotation
from portal.engine.fields.schemas import specs_from_schema
from portal.page_text import FieldValue

SCHEMA: dict[str, Any] = {
    "$defs": {
        "Line": {"type": "object", "properties": {"what": {"type": "string"}, "amount": {"$ref": "#/$defs/Amount"}}},
        "Amount": {"type": "number"},
        "a/b": {"type": "integer"},
    },
    "type": "object",
    "properties": {
        "total": {"$ref": "#/$defs/Amount"},
        "pieces": {"anyOf": [{"$ref": "#/$defs/a~1b"}, {"type": "null"}]},
        "rate": {"enum": [7, 19]},
        "currency": {"enum": ["EUR", "USD"]},
        "code": {"type": "string"},
        "readings": {"type": "array", "items": {"type": "integer"}},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
    },
}


def test_values_have_the_types_that_the_schema_asks_for_behind_its_references() -> None:
    row = (FieldValue("what", "Paper"), FieldValue("amount", "9.00"))
    values = (
        FieldValue("total", "9.00"),
        FieldValue("pieces", "7"),
        FieldValue("rate", "19"),
        FieldValue("currency", "eur"),
        FieldValue("code", "0017"),
        FieldValue("readings", "5"),
        FieldValue("readings", "6"),
        FieldValue("lines", rows=(row,)),
    )
    assert annotation(specs_from_schema(SCHEMA), values, SCHEMA) == {
        "total": 9.0,
        "pieces": 7,
        "rate": 19,
        "currency": "EUR",
        "code": "0017",
        "readings": [5, 6],
        "lines": [{"what": "Paper", "amount": 9.0}],
    }


def test_what_was_not_found_is_null() -> None:
    found = annotation(specs_from_schema(SCHEMA), (), SCHEMA)
    assert (found["total"], found["readings"], found["lines"]) == (None, [], [])
