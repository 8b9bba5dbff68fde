"""Loops are cut, pages that merely repeat themselves are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.engine.loops import LoopDetector, without_repeats

PAGE = "# Lieferschein 4711\n\nSehr geehrte Damen und Herren,\nanbei die Ware vom 3. Mai 2024.\n\n"


def _cut(text: str, *, piece: int = 7) -> str | None:
    """What is left of the text when it comes in small pieces; None when it is not cut."""
    detector = LoopDetector()
    for start in range(0, len(text), piece):
        loop = detector.feed(text[start : start + piece])
        if loop is not None:
            return text[: loop.cut_at]
    return None


@pytest.mark.parametrize(
    ("unit", "kept"),
    [
        ("The goods remain our property until paid.\n", None),
        ("| Paper A4 | 9.00 | 10 |\n", None),
        ("<tr><td>Paper</td><td>9.00</td></tr>", None),
        ("本合同一式两份，双方各执一份。", None),
        ("ご確認ください。\n", None),
        ("Total 9.00 ", None),
        ("I am here. You are there.\n\nWe are nowhere to be found, they said.\n\n", None),
        ("....", None),
        ("\\quad ", None),
        ("  ", None),
        ("<td>0</td>\n", None),
        ("  <td></td>\n", None),
        ("<tr>\n<td></td>\n<td></td>\n</tr>\n", None),
        ("<p></p>", None),
    ],
)
def test_text_is_cut_at_the_first_repeat_when_a_unit_runs_away(unit: str, kept: str | None) -> None:
    cut = _cut(PAGE + unit * (16000 // len(unit)))
    assert cut is not None
    assert cut.startswith(PAGE)
    assert len(cut) <= len(PAGE) + 2 * len(unit)


@pytest.mark.parametrize("form", ["{}. Item\n", "Figure {}: ", "ب ط {:03} ", "| {} | Paper |\n", "§ {} entfällt. "])
def test_text_is_cut_when_numbering_grows_without_end(form: str) -> None:
    cut = _cut(PAGE + "".join(form.format(number) for number in range(1, 2000)))
    assert cut is not None
    assert len(cut) < len(PAGE) + 100


def test_text_is_cut_when_blank_lines_do_not_end() -> None:
    assert _cut(PAGE + "\n" * 3000) is not None


def _table_of_zeros(rows: int, columns: int) -> str:
    return ("|" + " 0 |" * columns + "\n") * rows


PAGES_THAT_REPEAT = {
    "identical zeros": PAGE + _table_of_zeros(60, 20),
    "identical zeros as HTML": PAGE + "<table>" + ("<tr>" + "<td>0</td>" * 20 + "</tr>") * 60 + "</table>",
    "zeros with decimals": PAGE + ("|" + " 0.00 |" * 12 + "\n") * 70,
    "empty cells": PAGE + ("|" + "  |" * 30 + "\n") * 80,
    "dotted leaders": PAGE + "".join(f"Kapitel {n} {'.' * 110} {n * 7}\n" for n in range(1, 60)),
    "a page of one form line": PAGE + "Name: ____________________ Unterschrift: ____________________\n" * 50,
    "underscores": PAGE + ("_" * 100 + "\n") * 60,
    "numbered form lines": PAGE + "".join(f"{n}. Name: ______________ Datum: __________\n" for n in range(1, 61)),
    "yes and no boxes": PAGE + "☐ Ja ☐ Nein\n" * 70,
    "different numbers": PAGE
    + "".join(
        "|" + "".join(f" {(row * 7919 + column * 104729) % 99991} |" for column in range(14)) + "\n"
        for row in range(90)
    ),
    "HTML rows in lines": PAGE + "<table>\n" + ("<tr>" + "<td>0</td>" * 12 + "</tr>\n") * 80 + "</table>",
    "narrow HTML rows in lines": PAGE + "<table>\n" + ("<tr>" + "<td>0</td>" * 4 + "</tr>\n") * 70 + "</table>",
    "HTML cells in lines": PAGE + "<table>\n" + ("<tr>\n" + "<td>0</td>\n" * 12 + "</tr>\n") * 65 + "</table>",
    "HTML cells indented": PAGE + "<table>\n" + ("  <tr>\n" + "    <td></td>\n" * 6 + "  </tr>\n") * 80 + "</table>",
    "a wide HTML row": PAGE + "<table>\n<tr>\n" + '    <td style="text-align: center;"></td>\n' * 60 + "</tr></table>",
    "HTML form lines": PAGE + "<table>\n" + "<tr><td>Name</td><td></td><td>Unterschrift</td></tr>\n" * 61 + "</table>",
    "a wide table of zeros with decimals": PAGE + ("|" + " 0.00 |" * 20 + "\n") * 70,
    "form lines with blank ones between": PAGE + "Name: ________________ Date: ________\n\n" * 62,
    "an answer sheet": PAGE + "".join(f"{n}. ______________\n" for n in range(1, 131)),
    "a refrain": ("La la la la la\n" * 4 + "Another verse begins here\n") * 12,
    "the same ditto mark": PAGE + "〃　〃　〃　〃\n" * 60,
}


@pytest.mark.parametrize("name", PAGES_THAT_REPEAT)
def test_text_is_not_cut_when_a_page_can_hold_it(name: str) -> None:
    for shift in range(0, 200, 50):  # where the detector looks depends on what stands before
        assert _cut("x" * shift + PAGES_THAT_REPEAT[name]) is None


@given(st.lists(st.text(alphabet="abcdefgh äß本日0123456789|.", min_size=1, max_size=60), unique=True, max_size=250))
def test_text_is_never_cut_when_no_line_comes_twice(lines: list[str]) -> None:
    assert (
        _cut("".join(f"{line} ({hash_of}) \n" for hash_of, line in zip(_marks(len(lines)), lines, strict=True))) is None
    )


def _marks(count: int) -> list[str]:
    """Words that differ from line to line, without digits: growing numbers would be a loop of their own."""
    return ["".join("abcdefghij"[(number * 7 // 10**place) % 10] for place in range(4)) for number in range(count)]


@given(st.text(max_size=400), st.integers(1, 30))
def test_cut_is_the_same_when_the_pieces_are_of_another_size(start: str, piece: int) -> None:
    text = start + "Zahlbar binnen 14 Tagen ohne Abzug.\n" * 200
    cut = _cut(text, piece=piece)
    assert cut is not None
    assert text.startswith(cut)


def test_repeats_at_the_end_are_removed_when_the_server_found_them() -> None:
    assert without_repeats(PAGE + "again and again\n" * 40).startswith(PAGE + "again and again")
    assert without_repeats(PAGE + "again and again\n" * 40).count("again and again") <= 2
    assert without_repeats(PAGE) == PAGE
