"""Runaway repetition in a text that is being generated: found while it streams, by what no page can hold.

Pages do repeat themselves: tables of zeros, dotted leaders, forms of one line forty times. So not the repetition is the
sign but its length: a unit that follows itself at least six times *and* makes more rows, more letters or a longer line
than fit on a page. Numbers count as equal where they grow evenly (`1.`, `2.`, `3.` …), never otherwise: a table full
of different numbers is no loop. The bounds are ours, from A4 in small print: some 100 rows, 90 letters a row, or 150
short rows in columns. In an HTML table rows end where the markup says so: how it is laid out in lines says nothing. For
comparison, HunyuanOCR's own clients cut after 8 to 10 repeats once 4,000 to 8,000 characters are written.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

# vLLM's own detection (sampling parameter `repetition_detection`) counts tokens and knows no page, so it comes late: a
# row of up to 64 tokens 128 times. Small counts would end tables of zeros and dotted leaders.
SAFE_DETECTION: Final[dict[str, Any]] = {"max_pattern_size": 64, "min_pattern_size": 1, "min_count": 128}

MIN_REPEATS: Final = 6
MAX_ROWS: Final = 150
MAX_CELLS_IN_ROW: Final = 120
MAX_INK: Final = 6000
MAX_LINE_INK: Final = 600
MAX_COUNTING_LINE_INK: Final = 1200
MAX_LINE_CHARACTERS: Final = 1200
_WIDE_INK: Final = 2.5  # a Chinese or Japanese character fills the place of two or three letters

_LOOK_EVERY: Final = 200
_ANCHOR: Final = 24
_LONGEST_UNIT: Final = 2000
_CANDIDATES: Final = 40
_NUMBER = re.compile(r"\d+")
_LINE_END = re.compile(r"\n\s*|<br", re.IGNORECASE)
_TABLE_ROW_END = re.compile(r"</tr", re.IGNORECASE)
_TABLE_MARK = re.compile(r"</?t[dhr]\b", re.IGNORECASE)
_MAX_BLANK_LINES: Final = 4 * MAX_ROWS
_TAG = re.compile(r"</?[a-z][^>]{0,80}>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in a text. `cut_at` is where its first repeat begins: what stands before holds the unit once."""

    cut_at: int
    repeats: int


class LoopDetector:
    """Takes a text as it is generated. Its cost is linear in the text: a few string searches each 200 characters."""

    def __init__(self) -> None:
        self._text = ""
        self._next_look = _LOOK_EVERY
        self._masked = _Masked()

    def feed(self, piece: str) -> Loop | None:
        """Adds a piece; the loop, as soon as there is one."""
        self._text += piece
        if len(self._text) < self._next_look:
            return None
        self._next_look = len(self._text) + _LOOK_EVERY
        return self.look()

    def look(self) -> Loop | None:
        """Looks at the end of the text so far."""
        self._masked.take(self._text)
        run = _run_at_end(self._text, self._masked)
        return run.as_loop() if run is not None and run.is_longer_than_a_page() else None


def without_repeats(text: str) -> str:
    """The text up to the first repeat of what it ends in; for one whose loop the server found and ended."""
    masked = _Masked()
    masked.take(text)
    run = _run_at_end(text, masked)
    return text if run is None else text[: run.as_loop().cut_at]


class _Masked:
    """The text with each number as one `#`, and where each of its characters stands in the text."""

    def __init__(self) -> None:
        self.text = ""
        self.places = array("l")
        self._taken = 0

    def take(self, text: str) -> None:
        """Follows the text; digits at its end wait for what comes after them."""
        end = len(text)
        while end > self._taken and text[end - 1].isdigit():
            end -= 1
        parts, at = [self.text], self._taken
        for number in _NUMBER.finditer(text, self._taken, end):
            parts += [text[at : number.start()], "#"]
            self.places.extend(range(at, number.start() + 1))
            at = number.end()
        parts.append(text[at:end])
        self.places.extend(range(at, end))
        self.text, self._taken = "".join(parts), end


@dataclass(frozen=True, slots=True)
class _Run:
    """Units that follow each other up to the end of the text: `starts` are where they begin, the end comes last."""

    text: str
    starts: tuple[int, ...]
    is_counting: bool

    def as_loop(self) -> Loop:
        return Loop(cut_at=self.starts[1], repeats=len(self.starts) - 1)

    def is_longer_than_a_page(self) -> bool:
        if len(self.starts) - 1 < MIN_REPEATS:
            return False
        span = self.text[self.starts[0] : self.starts[-1]]
        is_table = _TABLE_MARK.search(span) is not None
        rows = len((_TABLE_ROW_END if is_table else _LINE_END).findall(span))
        ink = _ink(span)
        is_blank_without_end = not is_table and span.count("\n") > _MAX_BLANK_LINES
        if rows > MAX_ROWS or ink >= MAX_INK or is_blank_without_end:
            return True
        if rows:
            return False
        return ink >= (MAX_COUNTING_LINE_INK if self.is_counting else MAX_LINE_INK) or _is_too_wide(span, is_table)


def _is_too_wide(row: str, is_table: bool) -> bool:
    """Whether a part of one row has more than one row can, letters or not."""
    if not is_table:
        return len(row) >= MAX_LINE_CHARACTERS
    shown = " ".join(_TAG.sub(" ", row).split())
    return len(shown) >= MAX_LINE_CHARACTERS or len(_TABLE_MARK.findall(row)) > 2 * MAX_CELLS_IN_ROW


def _ink(text: str) -> float:
    """Letters and digits, tags left out; wide ones count for more."""
    shown = [char for char in _TAG.sub("", text) if char.isalnum()]
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in shown if char > "\u1100")
    return len(shown) + (_WIDE_INK - 1) * wide


def _run_at_end(text: str, masked: _Masked) -> _Run | None:
    period = _period(masked.text)
    if period is None:
        return None
    length = _periodic_length(masked.text, period)
    first = len(masked.text) - length
    ends = range(len(masked.text), first - 1, -period)
    starts = [masked.places[at] if at < len(masked.places) else len(text) for at in reversed(ends)]
    return _evenly(text, starts)


def _period(text: str) -> int | None:
    """The shortest unit that the text ends in twice at least, in characters."""
    anchor, at = text[-_ANCHOR:], len(text) - 1
    if len(anchor) < _ANCHOR:
        return None
    for _ in range(_CANDIDATES):
        at = text.rfind(anchor, max(0, len(text) - _ANCHOR - _LONGEST_UNIT), at + _ANCHOR - 1)
        if at < 0:
            return None
        period = len(text) - _ANCHOR - at
        if _periodic_length(text, period) >= max(2 * period, _ANCHOR):
            return period
    return None


def _periodic_length(text: str, period: int) -> int:
    """How many characters at the end repeat with this period (the first unit among them); doubling, then halving."""
    size = len(text)
    step, shared = period, 0
    while step:
        reach = shared + step
        if reach + period <= size and (
            text[size - reach : size - shared] == text[size - period - reach : size - period - shared]
        ):
            shared, step = reach, step * 2
        else:
            step //= 2
    return shared + period


def _evenly(text: str, starts: list[int]) -> _Run | None:
    """The last units of the run whose numbers grow evenly, or are the same; None for less than two."""
    units = [text[start:end] for start, end in pairwise(starts)]
    numbers = [[int(number[-15:]) for number in _NUMBER.findall(unit)] for unit in units]
    if len(numbers) < 2:
        return None
    steps = _steps(numbers[-2], numbers[-1])
    first = len(units) - 2
    while first > 0 and _steps(numbers[first - 1], numbers[first]) == steps:
        first -= 1
    is_counting = any(steps)
    if first == len(units) - 2 and is_counting:
        return None
    return _Run(text, tuple(starts[first:]), is_counting)


def _steps(before: list[int], after: list[int]) -> list[int]:
    return [late - early for early, late in zip(before, after, strict=False)]
