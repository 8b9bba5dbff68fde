from __future__ import annotations

import csv
import io

import pytest

from portal.domain import FieldSpec, FieldType
from portal.page_text import FieldValue
from portal.results.field_csv import field_csv, guarded

LINES = FieldSpec("items", FieldType.ROWS, children=(FieldSpec("text"), FieldSpec("amount", FieldType.MONEY)))


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd|x", "@SUM(A1)", "\t=1", "\r=1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-12.50", "+49 761 555", "12,5", "a=b", ""])
def test_numbers_and_words_stay_as_they_are(text: str) -> None:
    assert guarded(text) == text


def test_each_further_row_of_line_items_has_a_line_of_its_own() -> None:
    specs = (FieldSpec("total", FieldType.MONEY), LINES, FieldSpec("mail", many=True))
    rows = tuple(
        (FieldValue("text", text), FieldValue("amount", amount)) for text, amount in (("=A", "1"), ("B", None))
    )
    values = (
        FieldValue("total", "3.00", currency="EUR"),
        FieldValue("items", rows=rows),
        FieldValue("mail", "a@b.example"),
        FieldValue("mail", "c@d.example"),
    )
    text = "".join(field_csv(specs, [("scan;1.png", True, values), ("empty.png", False, ())]))
    assert list(csv.reader(io.StringIO(text.removeprefix("\ufeff")))) == [
        ["file", "to_check", "total", "total.currency", "items.text", "items.amount", "mail"],
        ["scan;1.png", "yes", "3.00", "EUR", "'=A", "1", "a@b.example; c@d.example"],
        ["scan;1.png", "yes", "", "", "B", "", ""],
        ["empty.png", "not read", "", "", "", "", ""],
    ]
