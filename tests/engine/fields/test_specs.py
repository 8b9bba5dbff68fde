from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import FieldType
from portal.engine.fields.schemas import specs_from_schema
from portal.engine.fields.specs import specs_from_json, specs_from_names, specs_to_json, stored_specs
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
        ([{"name": "a\ud800"}], "NUL or half"),
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
        ([{"name": "a", "type": "money"}, {"name": "b", "type": "text", "sum_of": ["a"]}], "not to text"),
        ([{"name": "a", "type": "money"}, {"name": "b", "type": "date", "sum_of": ["a"]}], "not to date"),
        ([{"name": "b", "type": "money", "sum_of": ["nope"]}], "names no field"),
        ([{"name": "a", "type": "text"}, {"name": "b", "type": "money", "sum_of": ["b+a"]}], "'a' is text"),
        ([{"name": "a", "type": "number"}, {"name": "b", "type": "number", "not_before": "a"}], "compares dates"),
        (["Total", "total:"], "tell apart"),
        (["Straße", "strasse"], "tell apart"),
        (["seal", "Séal!"], "tell apart"),
        ([{"name": "a", "type": "rows", "children": 5}], "are a list of rows"),
        ([{"name": "a", "type": "rows", "children": [{"name": "b", "many": True}]}], "one value in each row"),
        ([{"name": "a", "allowed": [True]}], "a list of at most"),
        ([{"name": "a", "type": "number", "minimum": 10**5000}], "minimum must be"),
    ],
)
def test_rows_are_refused_by_name_when_they_cannot_be_kept(rows: list[Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        specs_from_json(rows)


@pytest.mark.parametrize("pair", [("seal", "seai"), ("bill", "bili"), ("Ill", "Lil"), ("form I", "form l")])
def test_names_are_taken_when_they_differ_in_letters_that_pages_confuse(pair: tuple[str, str]) -> None:
    assert tuple(spec.name for spec in specs_from_names(pair)) == pair


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {" a ": {"type": "number"}}}, "no white space around it"),
        ({"properties": {"r": {"type": "array", "items": {"properties": {"b\t": {}}}}}}, "no white space around it"),
        ({"properties": {"a": {"const": None}}}, "'a'.*const allows no value but null"),
        ({"properties": {"a": {"enum": [None]}}}, "'a'.*enum allows no value but null"),
        ({"properties": {"a": {"enum": []}}}, "'a'.*enum allows no value"),
    ],
)
def test_a_property_is_refused_by_name_when_its_answer_could_not_be_as_asked(
    schema: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        specs_from_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": []},
        {"properties": {"a": {"type": "object", "properties": {}}}},
        {"properties": {"a": {"type": "string", "maxLength": 3}}},
        {"properties": {"a": 7}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"enum": 5}}},
        {"properties": {"a": {"enum": [{}]}}},
        {"properties": {"a": {"type": "string"}}, "required": 5},
        {"properties": {"a": {"anyOf": 5}}},
        {"properties": {"a": {"anyOf": [5, {"type": "string"}]}}},
        {"properties": {"a": {"type": 5}}},
        {"properties": {"a": {"type": "boolean"}}},
        {"properties": {"a": {"type": "null"}}},
        {"properties": {"a": {"$ref": "http://x/y"}}},
        {"properties": {"a": {"type": "array", "items": {"properties": [1]}}}},
        {"properties": {"a": {"type": "array", "items": {"type": "array"}}}},
        {"properties": {"a": {"type": "array", "items": {"properties": {"b": {"type": "array", "items": {}}}}}}},
        {"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"n": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}}},
    ],
)
def test_a_schema_is_refused_when_a_part_of_it_is_not_offered(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        specs_from_schema(schema)


_SAID = """type properties items required enum const anyOf $ref $defs x-type format pattern description name children
    many allowed minimum maximum not_before sum_of string number array object null rows money date a b # #/$defs/a"""
_WORDS = _SAID.split()
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(_WORDS),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_WORDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(_JSON)
def test_any_json_is_taken_or_refused_and_nothing_else_happens(given: Any) -> None:
    for read in (specs_from_schema, specs_from_json):
        for said in (given, {"properties": {"a": given}}, [{"name": "a", "type": "rows", "children": given}]):
            with suppress(InvalidRequest):
                specs = read(said)
                assert stored_specs(specs_to_json(specs)) == specs


def test_rows_are_refused_when_they_are_nested_without_end() -> None:
    row: dict[str, Any] = {"name": "a"}
    for _ in range(2000):
        row = {"name": "a", "type": "rows", "children": [row]}
    with pytest.raises(InvalidRequest):
        specs_from_json([row])


def test_numbered_names_are_names_of_their_own() -> None:
    assert [spec.name for spec in specs_from_names(["address 1", "address 2", "住所１", "住所2"])][1:3] == [
        "address 2",
        "住所１",
    ]


def test_stored_rules_are_read_though_they_would_be_refused_today() -> None:
    rows = [{"name": "a", "type": "text", "sum_of": ["b"]}, {"name": "A"}]
    assert stored_specs(rows)[0].sum_of == ("b",)
