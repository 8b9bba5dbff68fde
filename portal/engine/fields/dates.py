"""Dates in texts of eleven languages → ISO 8601. Month names come from Babel (Unicode CLDR). Pure.

Only what is a whole date with a year counts. Where day and month could stand either way, the page decides: by a date
that can be read one way only, else day first unless the page's currency is the US dollar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache

from babel import Locale

from portal.engine.fields.han import numeral_days
from portal.engine.fields.labels import folded

LANGUAGES = ("da", "de", "en", "es", "fr", "it", "ja", "nl", "pt", "sv", "zh")
_ERAS = {"令和": 2018, "平成": 1988, "昭和": 1925, "R": 2018, "H": 1988, "S": 1925, "民国": 1911, "民國": 1911}
_OTHER_NAMES = {"sept": 9, "sett": 9, "mrz": 3, "maerz": 3, "agt": 8, "mrts": 3, "juill": 7, "fevr": 2, "janv": 1}
_SEPARATORS = r"[-/.·]"
_WORD = r"[^\W\d_]{3,12}"

_YEAR_FIRST = re.compile(
    rf"(?<![\d.,])(\d{{4}})\s?(?:{_SEPARATORS}|年)\s?(\d{{1,2}})\s?(?:{_SEPARATORS}|月)\s?(\d{{1,2}})(?!\d)\s?日?"
)
_SHORT_YEAR_FIRST = re.compile(r"(?<!\d)(\d{2})\s?年\s?(\d{1,2})\s?月\s?(\d{1,2})\s?日")
_ERA = re.compile(
    r"(令和|平成|昭和|民国|民國|(?<![A-Za-z])[RHS])\s?(元|\d{1,3})\s?[年.]\s?(\d{1,2})\s?[月.]\s?(\d{1,2})(?!\d)\s?日?"
)
_NUMERIC = re.compile(
    rf"(?<![\d.,/-])(\d{{1,2}})(?:\s?({_SEPARATORS})\s?)(\d{{1,2}})(?:\s?\2\s?)(\d{{4}}|\d{{2}})(?![\d%]|[.,/-]\d)"
)
_DAY_FIRST = re.compile(
    rf"(?<![\d.,])(\d{{1,2}})(?:er|st|nd|rd|th|º|°|ª|:e)?[\s.,/-]*(?:de[nls]?\s|di\s|of\s)?\s*({_WORD})[\s.,/-]*(?:de[l]?\s|of\s)?\s*"
    r"['’]?(\d{4}|\d{2})(?![\d:%]|[.,]\d)",
    re.IGNORECASE,
)
_MONTH_FIRST = re.compile(
    rf"(?<!\w)({_WORD})[\s.-]*(\d{{1,2}})(?:st|nd|rd|th)?[\s,.-]+['’]?(\d{{4}})(?!\d)", re.IGNORECASE
)
_NAME_AFTER_YEAR = re.compile(rf"(?<!\d)(\d{{4}})[\s.,/-]+({_WORD})[\s.,/-]*(\d{{1,2}})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date at [start, end) of a text. `other` is the date with day and month swapped, where that is one too."""

    start: int
    end: int
    value: date
    other: date | None = None
    is_day_first: bool | None = None


def dates(text: str) -> list[FoundDate]:
    """All dates of an NFKC text by their place, those that overlap an earlier rule's left out."""
    found: list[FoundDate] = []
    for one in _all(text):
        if not any(one.start < other.end and other.start < one.end for other in found):
            found.append(one)
    return sorted(found, key=lambda one: one.start)


def month_of(name: str) -> int | None:
    """The month of a name or a usual abbreviation in any of the languages, else None."""
    return month_names().get(folded(name))


@cache
def month_names() -> dict[str, int]:
    """Folded names and abbreviations of months → 1 to 12."""
    names = {folded(name): month for name, month in _OTHER_NAMES.items()}
    for language in LANGUAGES:
        for forms in Locale.parse(language).months.values():
            for width in ("wide", "abbreviated"):
                for month, name in forms[width].items():
                    names.setdefault(folded(name), month)
                    names.setdefault(folded(name)[:3], month)
    return {name: month for name, month in names.items() if len(name) >= 3}


def _all(text: str) -> Iterator[FoundDate]:
    for match in _ERA.finditer(text):
        year = _ERAS[match[1]] + (1 if match[2] == "元" else int(match[2]))
        yield from _made(match, year, int(match[3]), int(match[4]))
    for match in _YEAR_FIRST.finditer(text):
        yield from _made(match, int(match[1]), int(match[2]), int(match[3]))
    for numeral in numeral_days(text):
        yield from _made(*numeral)
    for match in _SHORT_YEAR_FIRST.finditer(text):
        yield from _made(match, _full_year(match[1]), int(match[2]), int(match[3]))
    for match in _NUMERIC.finditer(text):
        yield from _either_way(match)
    for pattern, places in ((_DAY_FIRST, (3, 2, 1)), (_MONTH_FIRST, (3, 1, 2)), (_NAME_AFTER_YEAR, (1, 2, 3))):
        for match in pattern.finditer(text):
            written_year, name, day = (str(match[place]) for place in places)
            month = month_of(name)
            if month is not None:
                yield from _made(match, _full_year(written_year), month, int(day))


def _either_way(match: re.Match[str]) -> Iterator[FoundDate]:
    first, second, year = int(match[1]), int(match[3]), _full_year(match[4])
    day_first, month_first = _date(year, second, first), _date(year, first, second)
    value = day_first or month_first
    if value is None:
        return
    other = month_first if day_first and month_first != day_first else None
    is_day_first = None if other or day_first == month_first else day_first is not None
    yield FoundDate(match.start(), match.end(), value, other, is_day_first)


def _made(match: re.Match[str], year: int, month: int, day: int) -> Iterator[FoundDate]:
    value = _date(year, month, day)
    if value is not None:
        yield FoundDate(match.start(), match.end(), value)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day) if 1800 <= year <= 2199 else None
    except ValueError:
        return None


def _full_year(text: str) -> int:
    year = int(text)
    return year if len(text) > 2 else year + (1900 if year > 79 else 2000)
