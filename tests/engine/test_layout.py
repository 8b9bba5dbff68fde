"""From recognised lines to a page: noise dropped, order and blocks consistent, confidence weighted by length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.engine.geometry import bounding_box, skew_degrees
from portal.engine.layout import confidence, legible, page_text
from portal.page_text import Line


def _line(text: str, score: float, y0: int = 0) -> Line:
    return Line(text, (10, y0, 10 + 10 * len(text), y0 + 20), score)


def test_page_is_blank_when_only_specks_were_read() -> None:
    page = page_text(
        [_line(".", 0.9), _line("-", 0.7), _line("i", 0.55)], width_px=600, height_px=800, rotation_degrees=0
    )
    assert page.is_blank
    assert (page.lines, page.blocks, page.confidence) == ((), (), None)


def test_doubtful_lines_are_dropped_and_marks_kept_when_there_is_sure_text() -> None:
    kept = legible([_line("Total", 0.95), _line("€", 0.9), _line("~'", 0.6), _line("xq", 0.3), _line("9.00", 0.6)])
    assert [line.text for line in kept] == ["Total", "€", "9.00"]


def test_confidence_weighs_scores_by_length() -> None:
    assert confidence([_line("abcdefghi", 1.0), _line("x", 0.5)]) == pytest.approx(0.95)
    assert confidence([]) is None


def test_lines_come_in_reading_order_when_given_in_another() -> None:
    lines = [_line("third", 0.9, 60), _line("first", 0.9, 0), _line("second", 0.9, 30)]
    page = page_text(lines, width_px=600, height_px=800, rotation_degrees=90)
    assert [line.text for line in page.lines] == ["first", "second", "third"]
    assert page.text == "first\nsecond\nthird"
    assert (page.width_px, page.height_px, page.rotation_degrees) == (600, 800, 90)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 700), st.text(min_size=1, max_size=12)), max_size=30))
def test_each_legible_line_is_in_one_cell_by_its_place(made: list[tuple[int, int, str]]) -> None:
    lines = [Line(text, (x, y, x + 50, y + 20), 0.9) for x, y, text in made]
    page = page_text(lines, width_px=600, height_px=800, rotation_degrees=0)
    cells = [i for block in page.blocks for row in block.rows for cell in row for i in cell]
    assert cells == list(range(len(page.lines)))
    assert sorted(line.text for line in page.lines) == sorted(line.text for line in legible(lines))


def test_skew_is_the_median_of_long_lines_and_zero_when_small() -> None:
    tilted, short = (0.0, 0.0, 100.0, 3.0, 100.0, 13.0, 0.0, 10.0), (0.0, 0.0, 10.0, 9.0, 10.0, 19.0, 0.0, 10.0)
    level = (0.0, 0.0, 1000.0, 1.0, 1000.0, 21.0, 0.0, 20.0)
    assert skew_degrees([tilted, tilted, short]) == pytest.approx(1.72)
    assert skew_degrees([level]) == 0.0
    assert skew_degrees([]) == 0.0


def test_box_is_clipped_when_the_quad_leaves_the_page() -> None:
    assert bounding_box((-3.0, 1.2, 50.7, 1.0, 50.7, 20.0, -3.0, 20.4), 50, 20) == (0, 1, 50, 20)
