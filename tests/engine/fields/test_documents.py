from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import FieldSpec, FieldType
from portal.engine.fields import documents, totals
from portal.engine.fields.documents import judged, merged, needs_check
from portal.page_text import FieldState, FieldValue

MONEY, DATE = FieldType.MONEY, FieldType.DATE
LINES = FieldSpec("items", FieldType.ROWS, children=(FieldSpec("amount", MONEY),))


def _rows(*amounts: str | None) -> FieldValue:
    return FieldValue("items", rows=tuple((FieldValue("amount", amount),) for amount in amounts))


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        (FieldSpec("a", required=True), None, "required, but not found"),
        (FieldSpec("a", pattern=r"AB-\d+"), "XY-1", r"does not fit AB-\d+"),
        (FieldSpec("a", MONEY, minimum="10"), "9.99", "is less than 10"),
        (FieldSpec("a", FieldType.NUMBER, maximum="10"), "10.5", "is more than 10"),
        (FieldSpec("a", DATE, minimum="2026-01-01"), "2025-12-31", "is less than 2026-01-01"),
        (FieldSpec("a", allowed=("EUR", "USD")), "GBP", "is none of: EUR, USD"),
    ],
)
def test_value_fails_when_it_breaks_its_own_rule(spec: FieldSpec, value: str | None, message: str) -> None:
    [judgement] = judged([spec], [FieldValue("a", value)])
    assert (judgement.state, judgement.messages) == (FieldState.RULE_FAILED, (message,))
    assert needs_check([judgement])


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (FieldSpec("a"), None),
        (FieldSpec("a", pattern=r"AB-\d+"), "AB-17"),
        (FieldSpec("a", MONEY, minimum="9.99", maximum="9.99"), "9.99"),
        (FieldSpec("a", allowed=("EUR",)), "eur"),
        (FieldSpec("a", pattern="(a+)+$"), "a" * 40 + "!"),
    ],
)
def test_nothing_fails_or_hangs_when_the_rules_are_kept(spec: FieldSpec, value: str | None) -> None:
    [judgement] = judged([spec], [FieldValue("a", value)])
    assert judgement.state is (FieldState.RULE_FAILED if value and value.endswith("!") else FieldState.READ)


def test_a_date_fails_when_it_is_before_the_one_it_follows() -> None:
    specs = (FieldSpec("date", DATE), FieldSpec("due", DATE, not_before="date"))
    _, due = judged(specs, [FieldValue("date", "2026-03-03"), FieldValue("due", "2026-03-01")])
    assert due.messages == ("is before date",)
    assert not needs_check(judged(specs, [FieldValue("date", "2026-03-03"), FieldValue("due", "2026-03-03")]))


@pytest.mark.parametrize(
    ("total", "amounts", "is_right"),
    [
        ("30.00", ("10.00", "20.00"), True),
        ("36.00", ("10.00", "20.00"), True),
        ("30.01", ("10.00", "20.00"), True),
        ("31.00", ("10.00", "20.00"), False),
        ("31.00", ("10.00", None), True),
        ("31.00", (), True),
    ],
)
def test_a_total_fails_when_no_way_of_adding_up_gives_it(
    total: str, amounts: tuple[str | None, ...], is_right: bool
) -> None:
    specs = (LINES, FieldSpec("tax", MONEY), FieldSpec("total", MONEY, sum_of=("items.amount", "items.amount+tax")))
    values = judged(specs, [_rows(*amounts), FieldValue("tax", "6.00"), FieldValue("total", total)])
    assert needs_check(values) is not is_right


def test_pages_become_one_document_by_what_was_checked_and_is_surest() -> None:
    specs = (FieldSpec("total", MONEY), FieldSpec("seller"), LINES)
    first = (FieldValue("total", "1.00", score=0.9), FieldValue("seller", "Acme", score=0.5), _rows("1.00"))
    second = (FieldValue("total", "2.00", state=FieldState.CHECKED), FieldValue("seller", None), _rows("2.00"))
    total, seller, items = merged(specs, [(4, first), (5, second)])
    assert [(one.value, one.page) for one in (total, seller)] == [("2.00", 5), ("Acme", 4)]
    assert [(row[0].value, row[0].page) for row in items.rows] == [("1.00", 4), ("2.00", 5)]


def test_a_required_field_fails_once_and_not_on_each_page() -> None:
    specs = (FieldSpec("total", MONEY, required=True),)
    values = judged(specs, merged(specs, [(1, (FieldValue("total"),)), (2, (FieldValue("total", "1.00"),))]))
    assert [(value.value, value.state) for value in values] == [("1.00", FieldState.READ)]


_VALUES = st.sampled_from(["twelve", "2026-01-01", "1.00", "NaN", "1e999999", "sNaN", "-Infinity", "", "\ud800", None])


@given(st.sampled_from(FieldType), st.sampled_from(FieldType), _VALUES, _VALUES)
def test_rules_never_fail_whatever_stands_in_the_values(
    own: FieldType, other: FieldType, value: str | None, summand: str | None
) -> None:
    rules = FieldSpec("total", own, pattern="[a-z]+", minimum="1", maximum="ten", not_before="a", sum_of=("a+a", "a.b"))
    rows = ((FieldValue("b", value),),)
    judged((FieldSpec("a", other), rules), (FieldValue("a", summand, rows=rows), FieldValue("total", value)))


def test_a_name_with_a_dot_is_added_up_as_the_field_that_it_names() -> None:
    specs = (FieldSpec("net.", MONEY), FieldSpec("total", MONEY, sum_of=("net.",)))
    assert needs_check(judged(specs, (FieldValue("net.", "1.00"), FieldValue("total", "2.00"))))


def test_a_column_is_added_up_once_when_many_formulas_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str | None] = []
    real = totals.number
    monkeypatch.setattr(totals, "number", lambda text: (read.append(text), real(text))[1])
    formula = "+".join(["items.amount"] * 75)
    sums = tuple(FieldSpec(f"sum {at}", MONEY, many=True, sum_of=(formula,) * 50) for at in range(4))
    values = [FieldValue(spec.name, "1.00") for spec in sums for _ in range(20)]
    found = judged((LINES, *sums), [_rows(*["9.00"] * 200), *values])
    assert len(read) == 200
    assert found[1].messages[0].count("or of") == 9


def test_patterns_are_compared_up_to_a_bound_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MOST_MATCHING", 10_000)
    spec = FieldSpec("items", FieldType.ROWS, children=(FieldSpec("code", pattern="[a-h]{1,200}"),))
    rows = tuple((FieldValue("code", "a" * 20),) for _ in range(40))
    [found] = judged([spec], [FieldValue("items", rows=rows)])
    told = [row[0].messages for row in found.rows]
    assert told[0] == ()
    assert "not compared" in told[-1][0]
