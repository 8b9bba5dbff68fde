"""Reads what people type as a page range. Pure."""

from __future__ import annotations

import re

from portal.errors import InvalidRequest

MAX_PAGE = 100_000
_PART = re.compile(r"(\d{1,6})(?:\s*[-–]\s*(\d{1,6}))?")
_REMEDY = "Write page numbers and ranges with commas, like 1-3, 7; leave it empty for all pages."


def parse(text: str) -> tuple[int, ...] | None:
    """`1-3, 7` → (1, 2, 3, 7), ascending and without repeats; None for an empty text (all pages).

    Raises InvalidRequest naming the part that is not a page or a range.
    """
    parts = [part.strip() for part in re.split(r"[,;]", text) if part.strip()]
    if not parts:
        return None
    numbers: set[int] = set()
    for part in parts:
        numbers.update(_numbers(part))
    return tuple(sorted(numbers))


def _numbers(part: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise InvalidRequest(f"'{part}' is not a page or a range of pages.", remedy=_REMEDY)
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= MAX_PAGE:
        raise InvalidRequest(f"The range '{part}' does not run upwards from page 1.", remedy=_REMEDY)
    return range(first, last + 1)
