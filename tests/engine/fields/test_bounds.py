"""What is too much in all is refused before any of it is made."""

from __future__ import annotations

from typing import Any

import pytest

from portal.engine.fields import patterns, schemas, specs
from portal.engine.fields.bounds import MAX_IN_ALL, MAX_PATTERN_SIZE, MAX_PATTERNS, MAX_TERMS, check_patterns
from portal.engine.fields.schemas import specs_from_schema
from portal.engine.fields.specs import specs_from_json, specs_from_names, stored_specs
from portal.engine.fields.templates import BUILT_IN
from portal.errors import InvalidRequest

# Each of them is taken, and four of them are too large together.
LARGE = r"[\pL\pN]{1,20}"


def _names(count: int) -> list[str]:
    return [f"field {at}" for at in range(count)]


def _table(columns: int, **rules: Any) -> dict[str, Any]:
    children = [{"name": name, "type": "text", **rules} for name in _names(columns)]
    return {"name": "items", "type": "rows", "children": children}


def _schema(references: int, columns: int) -> dict[str, Any]:
    row = {"type": "object", "properties": {name: {"type": "string", "pattern": LARGE} for name in _names(columns)}}
    arrays = {name: {"$ref": "#/$defs/rows"} for name in _names(references)}
    return {"properties": arrays, "$defs": {"rows": {"type": "array", "items": row}}}


def _compiled() -> int:
    return patterns._compiled.cache_info().misses


@pytest.mark.parametrize(
    "ask",
    [
        lambda: specs_from_schema(_schema(95, 100)),
        lambda: specs_from_schema(_schema(2, 100)),
        lambda: specs_from_json(_names(MAX_IN_ALL + 1)),
        lambda: specs_from_json([{"name": "x"}] * 1_000_000),
        lambda: specs_from_json([_table(100), _table(99)]),
        lambda: specs_from_names(_names(100_000)),
    ],
)
def test_nothing_is_built_when_fields_and_columns_are_too_many_in_all(
    ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[object] = []
    for module, name in ((specs, "from_row"), (schemas, "from_row"), (specs, "type_of_name")):
        monkeypatch.setattr(module, name, lambda *given, **_: built.append(given))
    before = _compiled()
    with pytest.raises(InvalidRequest, match=f"at most {MAX_IN_ALL} are taken in all"):
        ask()
    assert (built, _compiled()) == ([], before)


def test_as_many_as_may_be_are_taken() -> None:
    found = specs_from_json([*_names(99), _table(100)])
    assert sum(1 + len(spec.children) for spec in found) == MAX_IN_ALL
    assert len(specs_from_schema(_schema(1, 3))[0].children) == 3


def test_what_was_stored_before_is_still_read() -> None:
    assert len(stored_specs([_table(100) | {"name": name} for name in _names(5)])) == 5


def test_no_more_is_compiled_when_the_patterns_are_too_large_in_all() -> None:
    rows = [{"name": name, "type": "text", "pattern": f"{LARGE}q{at}"} for at, name in enumerate(_names(60))]
    before = _compiled()
    with pytest.raises(InvalidRequest, match="too large in all"):
        specs_from_json(rows)
    assert _compiled() - before <= 4


def test_patterns_are_refused_when_they_are_too_many() -> None:
    with pytest.raises(InvalidRequest, match=f"at most {MAX_PATTERNS}"):
        specs_from_json([*_names(1), _table(MAX_PATTERNS, pattern="a"), {"name": "b", "pattern": "b"}])


def test_each_pattern_of_an_order_is_compiled_once() -> None:
    rows = [{"name": name, "type": "text", "pattern": f"^once{at}$"} for at, name in enumerate(_names(MAX_PATTERNS))]
    found = specs_from_json(rows)
    before = _compiled()
    for spec in found * 2:
        assert spec.pattern is not None
        assert patterns.fits(spec.pattern, spec.pattern[1:-1])
        assert patterns.spans(spec.pattern, f"x {spec.pattern[1:-1]} y")
    assert _compiled() == before


@pytest.mark.parametrize(
    "pattern",
    [
        *(spec.pattern for fields in BUILT_IN.values() for spec in fields if spec.pattern),
        *(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", r"\pL[\pL '-]+", r"\p{Lu}\pL{1,20}", r"(?i).{1,200}", r"\d{4}-\d{2}-\d{2}"),
    ],
)
def test_sane_patterns_are_taken(pattern: str) -> None:
    assert patterns.size_of(pattern) < MAX_PATTERN_SIZE / 2
    specs_from_json([{"name": "a", "type": "text", "pattern": pattern}])


@pytest.mark.parametrize("pattern", ["^*abc", "(?=a)", r"\pL{1,100}"])
def test_a_pattern_is_refused_when_it_cannot_be_looked_for_in_a_line(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be used"):
        check_patterns(stored_specs([{"name": "a", "pattern": pattern}]))


def test_formulas_are_refused_when_their_terms_are_too_many_in_all() -> None:
    amount = {"name": "net", "type": "money"}
    sums = {"type": "money", "sum_of": ["+".join(["net"] * 100)] * (MAX_TERMS // 200)}
    assert len(specs_from_json([amount, {"name": "a", **sums}, {"name": "b", **sums}])) == 3
    with pytest.raises(InvalidRequest, match=f"at most {MAX_TERMS} are taken in all"):
        specs_from_json([amount, *({"name": name, **sums} for name in "abc")])


@pytest.mark.parametrize("part", ["required", "enum", "type", "anyOf"])
def test_a_schema_is_refused_when_a_list_in_it_is_endless(part: str) -> None:
    words = ["string"] * 201
    root = {"properties": {"a": {"type": "string", part: words}}, "required": words if part == "required" else []}
    with pytest.raises(InvalidRequest):
        specs_from_schema(root)
