"""What language models answer: good, partial, invented and broken JSON."""

from __future__ import annotations

import pytest

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.answers import CUT_SHORT, NO_JSON, NO_SOURCE, answer_schema, from_answer
from portal.page_text import FieldState
from tests.engine.fields.test_matcher import page

SPECS = (
    FieldSpec("number", FieldType.ID),
    FieldSpec("date", FieldType.DATE),
    FieldSpec("total", FieldType.MONEY),
    FieldSpec("seller"),
)
PAGE = page(("Weidenhof GmbH", 80, 40), ("Nr. RE-17", 80, 100), ("3. März 2026", 80, 140), ("1.234,50 €", 600, 180))
GOOD = '{"number": "RE-17", "date": "2026-03-03", "total": 1234.5, "seller": "Weidenhof GmbH"}'


def test_values_have_the_boxes_of_their_lines_when_the_answer_is_good() -> None:
    values = from_answer(GOOD, PAGE, SPECS)
    assert [value.value for value in values] == ["RE-17", "2026-03-03", "1234.50", "Weidenhof GmbH"]
    assert [value.box for value in values] == [PAGE.lines[at].box for at in (1, 2, 3, 0)]
    assert values[2].currency == "EUR"
    assert not any(value.messages for value in values)


@pytest.mark.parametrize(
    "answer",
    [
        f"```json\n{GOOD}\n```",
        f"<think>{{'number': 'no'}}</think>Here you are: {GOOD} Anything else?",
        GOOD.replace('"', "'"),
        f"[{GOOD}]",
        GOOD.replace("Weidenhof GmbH", "Weidenhof\x01GmbH"),
        '[{"key": "number", "value": "RE-17"}, {"key": "date", "value": "3. März 2026"}, {"key": "total", "value":'
        ' "1.234,50 €"}, {"key": "Seller", "value": "Weidenhof GmbH"}]',
    ],
)
def test_the_answer_is_understood_however_it_is_wrapped(answer: str) -> None:
    values = from_answer(answer, PAGE, SPECS)
    assert [value.value for value in values][:3] == ["RE-17", "2026-03-03", "1234.50"]


def test_what_is_missing_is_null_and_told_when_the_answer_is_cut() -> None:
    number, date, total, seller = from_answer('{"number": "RE-17", "date": null, "total": "1.234,5', PAGE, SPECS)
    assert (number.value, date.value, seller.value) == ("RE-17", None, None)
    assert (date.messages, seller.messages) == ((), (CUT_SHORT,))
    assert (total.value, total.box) == ("1234.50", PAGE.lines[3].box)


def test_no_source_is_told_when_a_value_stands_nowhere_on_the_page() -> None:
    values = from_answer(
        '{"number": "RE-18", "date": "2026-03-04", "total": 99, "seller": "Acme", "extra": 1}', PAGE, SPECS
    )
    assert [(value.box, value.score, value.messages) for value in values] == [(None, None, (NO_SOURCE,))] * 4
    assert [value.name for value in values] == ["number", "date", "total", "seller"]


def test_what_is_no_value_of_its_type_is_told_and_not_put_right() -> None:
    answer = '{"number": ["a", "b"], "date": "soon", "total": {"amount": 1}, "seller": "N/A"}'
    number, date, total, seller = from_answer(answer, PAGE, SPECS)
    assert [value.state for value in (number, date, total)] == [FieldState.RULE_FAILED] * 3
    assert (date.value, date.raw, date.messages) == (None, "soon", ("the model's answer is no date",))
    assert (seller.value, seller.state) == (None, FieldState.READ)


@pytest.mark.parametrize("answer", ["", "I cannot read this.", "null", "[1, 2]", "{" * 5000, "[" * 100_000, "\x00"])
def test_every_field_tells_when_there_is_no_object(answer: str) -> None:
    values = from_answer(answer, PAGE, SPECS)
    assert [value.value for value in values] == [None] * 4
    assert all(value.messages in ((NO_JSON,), (CUT_SHORT,)) for value in values)


def test_rows_are_looked_up_cell_by_cell() -> None:
    spec = FieldSpec("items", FieldType.ROWS, children=(FieldSpec("what"), FieldSpec("amount", FieldType.MONEY)))
    [good] = from_answer('{"items": [{"what": "Nr. RE-17", "amount": "1.234,50 €"}, {"what": "Gold"}]}', PAGE, [spec])
    assert [[cell.value for cell in row] for row in good.rows] == [["Nr. RE-17", "1234.50"], ["Gold", None]]
    assert good.rows[1][0].messages == (NO_SOURCE,)
    [bad] = from_answer('{"items": "many"}', PAGE, [spec])
    assert (bad.rows, bad.state, bad.raw) == ((), FieldState.RULE_FAILED, "many")


def test_a_page_without_lines_tells_that_it_was_seen_in_the_text() -> None:
    [value] = from_answer('{"total": "12.00"}', page(markdown="Total | 12.00"), [FieldSpec("total", FieldType.MONEY)])
    assert (value.value, value.box, value.how) == ("12.00", None, "by the model, seen in the text")


def test_the_schema_asks_for_every_field_and_allows_null() -> None:
    schema = answer_schema((FieldSpec("kind", allowed=("a", "b")), FieldSpec("mails", many=True)))
    assert schema["required"] == ["kind", "mails"]
    assert schema["properties"]["kind"] == {"enum": ["a", "b", None]}


def test_a_numbered_field_takes_no_other_numbers_value() -> None:
    specs = (FieldSpec("address 1"), FieldSpec("address 2"), FieldSpec("Ship to"))
    answer = '{"Address_1": "Main St 5", "ship_to": "A", "SHIP TO": "B"}'
    values = from_answer(answer, page(("Main St 5", 80, 40)), specs)
    assert [value.value for value in values] == ["Main St 5", None, None]


def test_a_field_takes_no_value_of_one_whose_name_differs_in_i_and_l() -> None:
    values = from_answer('{"Seai": "7"}', page(("Seai 7", 80, 40)), (FieldSpec("seal"), FieldSpec("seai")))
    assert [value.value for value in values] == [None, "7"]
