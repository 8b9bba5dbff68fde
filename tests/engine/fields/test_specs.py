from __future__ import annotations

from typing import Any

import pytest

from portal.domain import FieldType
from portal.engine.fields.specs import specs_from_json, specs_from_names, specs_from_schema, specs_to_json
from portal.engine.fields.templates import BUILT_IN
from portal.errors import InvalidRequest

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["total"],
    "properties": {
        "total": {"type": "number", "minimum": 0},
        "issued": {"type": "string", "format": "date"},
        "currency": {"enum": ["EUR", "USD", None]},
        "iban": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "IBAN"},
        "emails": {"type": "array", "items": {"type": "string", "format": "email"}},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
    },
    "$defs": {
        "Item": {"type": "object", "properties": {"text": {"type": "string"}, "amount": {"type": ["number", "null"]}}}
    },
}

UNSTORABLE = ("x\x00y", "\ud800")


def test_names_are_typed_by_what_they_say() -> None:
    names = ("Rechnungsdatum", "total", "IBAN", "e-mail", "ship's master", "Kundennummer", "berth number", "total")
    types = [spec.type for spec in specs_from_names(names)]
    assert types == [*map(FieldType, ("date", "money", "iban", "email", "text", "id", "id"))]


def test_a_schema_becomes_specs() -> None:
    total, issued, currency, iban, emails, items = specs_from_schema(SCHEMA)
    assert (total.type, total.required, total.minimum) == (FieldType.MONEY, True, "0")
    assert (issued.type, currency.allowed, iban.type) == (FieldType.DATE, ("EUR", "USD"), FieldType.IBAN)
    assert (emails.many, emails.type) == (True, FieldType.EMAIL)
    assert [(child.name, child.type) for child in items.children] == [
        ("text", FieldType.TEXT),
        ("amount", FieldType.MONEY),
    ]


@pytest.mark.parametrize("name", BUILT_IN)
def test_specs_come_back_as_they_were_when_they_are_stored(name: str) -> None:
    assert specs_from_json(specs_to_json(BUILT_IN[name])) == BUILT_IN[name]


def test_bare_names_of_older_jobs_are_taken() -> None:
    assert [spec.name for spec in specs_from_json(["date", "total"])] == ["date", "total"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"name": ""}], "1 to 100"),
        ([{"name": "a"}, {"name": "a"}], "stands twice"),
        ([{"name": "a", "type": "colour"}], "type must be one of"),
        ([{"name": "a", "pattern": "(?=a)"}], "RE2|cannot be used"),
        ([{"name": "a", "not_before": "b"}], "names no field"),
        ([{"name": "a", "type": "rows"}], "need children"),
        ([{"name": "a", "size": 1}], "'size' is none of"),
        ([{"name": "a", "required": "yes"}], "true or false"),
        ([{"name": "a\x7f"}], "printable"),
        *(([{"name": "a", key: words}], "NUL or half") for key in ("description", "pattern") for words in UNSTORABLE),
        *(([{"name": "a", key: [words]}], "NUL or half") for key in ("allowed", "sum_of") for words in UNSTORABLE),
        ([{"name": "a\x00"}], "NUL or half"),
        ([{"name": "a", "type": "rows", "children": [{"name": "b", "description": "\udc00"}]}], "NUL or half"),
        ([7], "an object"),
        ([{"name": str(at)} for at in range(101)], "too many"),
        (
            [{"name": "a", "type": "rows", "children": [{"name": "b", "type": "rows", "children": ["c"]}]}],
            "no rows within",
        ),
        ([{"name": "a", "type": "number", "minimum": float("nan")}], "a number like"),
        ([{"name": "a", "type": "money", "maximum": float("inf")}], "a number like"),
        ([{"name": "a", "type": "number", "minimum": "1e9999999999999999999"}], "a number like"),
        ([{"name": "a", "type": "number", "minimum": "ten"}], "a number like"),
        ([{"name": "a", "type": "date", "maximum": "30.11.2026"}], "a day like"),
        ([{"name": "a", "type": "text", "minimum": "b"}], "not to text"),
    ],
)
def test_rows_are_refused_by_name_when_they_cannot_be_kept(rows: list[Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        specs_from_json(rows)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": []},
        {"properties": {"a": {"type": "object", "properties": {}}}},
        {"properties": {"a": {"type": "string", "maxLength": 3}}},
        {"properties": {"a": 7}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
def test_a_schema_is_refused_when_a_part_of_it_is_not_offered(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        specs_from_schema(schema)
