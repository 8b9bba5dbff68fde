"""Page selections as people write them: '1-3,7'. They count from 1, on the Mistral-compatible route from 0."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_TEXT_LENGTH = 10_000
_PART = re.compile(r"\s*(\d{1,6})\s*(?:[-–]\s*(\d{1,6})\s*)?", re.ASCII)


def parse_page_numbers(text: str, *, first: int, limit: int) -> tuple[int, ...]:
    """Sorted page numbers, each once, counted from 1, of a text that counts from `first` (0 or 1).

    Raises ValueError, in words for the caller, when the text is longer than MAX_TEXT_LENGTH characters or no such
    list, counts below `first`, runs backwards, or names a page past the `limit`-th.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"is a page list of more than {MAX_TEXT_LENGTH} characters; write ranges such as '1-500'")
    chosen = bytearray(limit)  # one byte a page: ranges that name the same pages again cost nothing
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"is not a list of page numbers and ranges such as '1-3,7': '{part.strip()[:40]}'")
        start = int(match[1])
        end = int(match[2] or match[1])
        if end < start:
            raise ValueError(f"has a range that runs backwards: '{part.strip()[:40]}'")
        _check(start, end, first=first, limit=limit)
        chosen[start - first : end - first + 1] = b"\1" * (end - start + 1)
    return tuple(number for number, is_chosen in enumerate(chosen, start=1) if is_chosen)


def check_page_numbers(given: Iterable[int], *, first: int, limit: int) -> tuple[int, ...]:
    """The same for numbers that came as a list."""
    numbers = sorted(set(given))
    if not numbers:
        raise ValueError("names no page")
    _check(numbers[0], numbers[-1], first=first, limit=limit)
    return tuple(number - first + 1 for number in numbers)


def written_page_numbers(numbers: Iterable[int]) -> str:
    """The shortest text that parse_page_numbers reads as these numbers: (1, 2, 3, 7) → '1-3,7'."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _check(start: int, end: int, *, first: int, limit: int) -> None:
    if start < first:
        raise ValueError(f"counts pages from {first}")
    if end - first >= limit:
        raise ValueError(f"names a page past the {limit} pages that a document may have")
