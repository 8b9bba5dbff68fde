"""Columns of prose are read one after another; everything else row by row; nothing is lost or doubled."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from portal.engine.reading_order import regions
from portal.page_text import Line

_PROSE = "some words that fill the line"


def _line(text: str, x0: int, y0: int, x1: int, y1: int) -> Line:
    return Line(text, (x0, y0, x1, y1), 0.9)


def _column(name: str, x0: int, top: int, rows: int = 6) -> list[Line]:
    return [_line(f"{name}{i} {_PROSE}", x0, top + 30 * i, x0 + 400, top + 30 * i + 24) for i in range(rows)]


def _first_words(lines: list[Line], skew: float = 0.0) -> list[str]:
    return [fragment.text.split()[0] for region in regions(lines, skew) for row in region for fragment in row]


def _names(prefix: str, rows: int = 6) -> list[str]:
    return [f"{prefix}{i}" for i in range(rows)]


def test_left_column_comes_first_when_both_are_prose() -> None:
    lines = [*_column("b", 500, 100), *_column("a", 50, 100)]
    assert _first_words(lines) == [*_names("a"), *_names("b")]


def test_three_columns_come_in_order_when_all_are_prose() -> None:
    lines = [*_column("c", 950, 100), *_column("b", 500, 100), *_column("a", 50, 100)]
    assert _first_words(lines) == [*_names("a"), *_names("b"), *_names("c")]


def test_wide_lines_cut_the_page_in_bands_when_they_cross_the_edge() -> None:
    lines = [
        *_column("d", 500, 400),
        *_column("c", 50, 400),
        _line("Middle heading over both columns", 50, 330, 900, 360),
        *_column("b", 500, 100),
        *_column("a", 50, 100),
        _line("Title over both columns", 50, 40, 900, 70),
    ]
    bands = [*_names("a"), *_names("b"), "Middle", *_names("c"), *_names("d")]
    assert _first_words(lines) == ["Title", *bands]


def test_columns_are_found_when_the_page_is_tilted() -> None:
    tilt = 3.0
    lines = [_tilted(line, tilt) for line in (*_column("a", 50, 100), *_column("b", 500, 100))]
    assert _first_words(lines, tilt) == [*_names("a"), *_names("b")]


def test_prices_stay_beside_their_articles_when_it_is_a_receipt() -> None:
    lines = []
    for i in range(10):
        lines.append(_line(f"{i}.99", 700, 100 + 30 * i, 760, 124 + 30 * i))
        lines.append(_line(f"article-{i}", 50, 103 + 30 * i, 200 + 20 * (i % 3), 127 + 30 * i))
    expected = [word for i in range(10) for word in (f"article-{i}", f"{i}.99")]
    assert _first_words(lines) == expected
    assert [len(row) for row in regions(lines, 0.0)[0]] == [2] * 10


def test_nothing_comes_out_when_there_are_no_lines() -> None:
    assert regions([], 0.0) == []


_places = st.tuples(st.integers(0, 900), st.integers(0, 1200), st.integers(1, 600), st.integers(1, 60))


@given(st.lists(st.tuples(_places, st.text(min_size=1, max_size=30)), max_size=40), st.floats(-10, 10))
def test_every_line_comes_out_exactly_once(made: list[tuple[tuple[int, int, int, int], str]], skew: float) -> None:
    lines = [_line(text, x, y, x + width, y + height) for (x, y, width, height), text in made]
    found = [fragment.index for region in regions(lines, skew) for row in region for fragment in row]
    assert sorted(found) == list(range(len(lines)))


@given(st.integers(4, 12), st.integers(2, 3), st.randoms(use_true_random=False))
def test_order_does_not_depend_on_the_order_given(rows: int, columns: int, random: object) -> None:
    lines = [line for i in range(columns) for line in _column("abc"[i], 50 + 450 * i, 100, rows)]
    expected = [line.text.split()[0] for line in lines]
    shuffled = list(lines)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert _first_words(shuffled) == expected


def _tilted(line: Line, degrees: float) -> Line:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x0, y0, x1, y1 = line.box
    corners = [(x * cosine - y * sine, x * sine + y * cosine) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    quad = tuple(value for corner in corners for value in corner)
    return Line(line.text, (int(min(xs)), int(min(ys)), int(max(xs)), int(max(ys))), 0.9, quad)  # type: ignore[arg-type]
