"""The order in which a person reads the lines of a page: columns of prose one after another, else row by row.

A column edge is a vertical line both sides of which look like prose; the few wide lines that cross it (headings,
footers) cut the page into bands, as in a recursive XY-cut (Nagy & Seth 1984). Where no edge is found, lines at
one height form a row, so that receipts, forms and tables keep each label beside its value. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median

from portal.engine.geometry import straightened
from portal.page_text import Line

Row = list["Fragment"]
Region = list[Row]

_MIN_LINES_TO_SPLIT = 8
_MIN_COLUMN_LINES = 4
_MAX_DEPTH = 6
_NUMBER = re.compile(r"[\W\d€$£%a-z]{0,3}[\d.,\s%-]+\D{0,3}")


@dataclass(frozen=True, slots=True)
class Fragment:
    """One line's place on the straightened page. `index` is the line's place in the given sequence."""

    index: int
    text: str
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        """Pixels from left to right edge."""
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        """Pixels from top to bottom edge."""
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        """Height of the centre on the page."""
        return (self.y0 + self.y1) / 2


@dataclass(frozen=True)
class _Split:
    """A column edge: what lies left and right of it, and the lines that cross it."""

    left: list[Fragment]
    right: list[Fragment]
    crossing: list[Fragment]
    weight: int


def regions(lines: Sequence[Line], skew: float) -> list[Region]:
    """Regions in reading order, each a list of rows, each row its fragments from left to right.

    Every line comes out exactly once.
    """
    fragments = [Fragment(i, line.text, *straightened(line, skew)) for i, line in enumerate(lines)]
    if not fragments:
        return []
    return _cut(fragments, median(fragment.height for fragment in fragments), 0)


def in_rows(fragments: Iterable[Fragment]) -> Region:
    """Fragments whose centres lie within half a line of each other share a row; rows from top to bottom."""
    rows: Region = []
    for fragment in sorted(fragments, key=lambda fragment: fragment.middle):
        row = next((row for row in rows[-3:] if _is_level(row, fragment)), None)
        if row is None:
            rows.append([fragment])
        else:
            row.append(fragment)
    for row in rows:
        row.sort(key=lambda fragment: fragment.x0)
    return sorted(rows, key=lambda row: mean(fragment.middle for fragment in row))


def _is_level(row: Row, fragment: Fragment) -> bool:
    height = min(mean(other.height for other in row), fragment.height)
    return abs(row[0].middle - fragment.middle) < 0.55 * height


def _cut(fragments: list[Fragment], line_height: float, depth: int) -> list[Region]:
    split = _best_split(fragments, line_height) if depth < _MAX_DEPTH else None
    if split is None:
        return [in_rows(fragments)] if fragments else []
    found: list[Region] = []
    left, right = split.left, split.right
    for wide in [*in_rows(split.crossing), []]:
        limit = mean(fragment.middle for fragment in wide) if wide else float("inf")
        for column in (left, right):
            found += _cut([fragment for fragment in column if fragment.middle < limit], line_height, depth + 1)
        left = [fragment for fragment in left if fragment.middle >= limit]
        right = [fragment for fragment in right if fragment.middle >= limit]
        if wide:
            found.append([wide])
    return found


def _best_split(fragments: list[Fragment], line_height: float) -> _Split | None:
    if len(fragments) < _MIN_LINES_TO_SPLIT:
        return None
    start, end = min(fragment.x0 for fragment in fragments), max(fragment.x1 for fragment in fragments)
    margin = 0.15 * (end - start)
    edges = {round((fragment.x0 - 0.3 * line_height) / (0.3 * line_height)) for fragment in fragments}
    candidates = (
        _split_at(fragments, edge * 0.3 * line_height, line_height)
        for edge in sorted(edges)
        if start + margin <= edge * 0.3 * line_height <= end - margin
    )
    return max((split for split in candidates if split), key=lambda split: split.weight, default=None)


def _split_at(fragments: list[Fragment], edge: float, line_height: float) -> _Split | None:
    """The split at `edge` if it parts two columns of prose that stand side by side, else None."""
    slack = 0.3 * line_height
    left = [fragment for fragment in fragments if fragment.x1 <= edge + slack]
    right = [fragment for fragment in fragments if fragment.x0 >= edge - slack and fragment.x1 > edge + slack]
    if not _is_prose(left):
        return None
    # Of three columns the right two are no prose together, but part again.
    if not _is_prose(right) and _best_split(right, line_height) is None:
        return None
    top = max(min(fragment.y0 for fragment in left), min(fragment.y0 for fragment in right))
    bottom = min(max(fragment.y1 for fragment in left), max(fragment.y1 for fragment in right))
    if bottom - top < 3 * line_height:
        return None
    crossing = [fragment for fragment in fragments if fragment.x0 < edge - slack and fragment.x1 > edge + slack]
    inside = sum(top < fragment.middle < bottom for fragment in crossing)
    beside = sum(top <= fragment.middle <= bottom for fragment in (*left, *right))
    if inside > 0.2 * beside or len(crossing) > 0.6 * len(fragments):
        return None
    return _Split(left, right, crossing, weight=beside - 3 * inside)


def _is_prose(column: list[Fragment]) -> bool:
    """Most lines fill the column's width, are of some length and are not numbers."""
    if len(column) < _MIN_COLUMN_LINES:
        return False
    width = max(fragment.x1 for fragment in column) - min(fragment.x0 for fragment in column)
    numbers = sum(_NUMBER.fullmatch(fragment.text) is not None for fragment in column)
    return (
        sorted(fragment.width for fragment in column)[len(column) // 2] > 0.62 * width
        and numbers < 0.3 * len(column)
        and median(len(fragment.text) for fragment in column) >= 10
    )
