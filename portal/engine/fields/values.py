"""Texts → typed, normalised values: what can stand for a date, an amount, an IBAN … and how it is written down. Pure.

Everything takes NFKC text. A value that its type does not bear out is no value: the checksum of an IBAN must be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from stdnum import iban

from portal.domain import FieldSpec, FieldType
from portal.engine.fields import patterns
from portal.engine.fields.amounts import FoundAmount, amounts, decimal_text
from portal.engine.fields.dates import FoundDate, dates

_EMAIL = re.compile(r"[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_PHONE = re.compile(r"(?<![\w.])(?:\+|00)?\(?\d[\d\s()./-]{4,20}\d(?![\w])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\s?\d{2}(?:[\s-]?[A-Z0-9]){11,30}")
_ID = re.compile(
    # Runs are possessive, for linear time: what follows a shorter one is a letter or digit, which ends no code.
    r"(?<![\w.,])(?:[A-Z]{1,6}[ ]?[-/.:]?[ ]?)?(?=[A-Za-z]*\d)[A-Za-z0-9]++(?:[-/._][A-Za-z0-9]++)*(?![,.]?\d|\w|\s?%)"
)
_ID_IN_GROUPS = re.compile(r"\s*(\d{2,}(?:[ ]\d{2,}){1,6})\s*")
_HALF = r"(\s?[AaPp]\.?[Mm]\.?|\s?(?:Uhr|uhr)\b)"
# A point parts hours and minutes only where am, pm or Uhr says so: else 12.00 is an amount.
_TIME = re.compile(
    rf"(?<![\d.,:])([01]?\d|2[0-3])(?:[:h時时]\s?([0-5]\d)(?:[:分]\s?([0-5]\d))?\s?[分秒]?{_HALF}?|\.([0-5]\d){_HALF})"
    r"(?![\d:]|[.,]\d)"
)
_LEADING, _TRAILING = " \t:：;,.-–—=|/•·*#>", " \t:：;,|•·"
_MOST_DIGITS = 100
_MIN_PHONE_DIGITS, _MAX_PHONE_DIGITS = 6, 15


@dataclass(frozen=True, slots=True)
class Found:
    """A value at [start, end) of a text. `is_sure` is False where the page does not settle how to read it."""

    start: int
    end: int
    value: str
    currency: str | None = None
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class Conventions:
    """How a page writes: its decimal mark, its currency, and whether days come first; None where it does not tell."""

    decimal_mark: str | None = None
    currency: str | None = None
    is_day_first: bool | None = None
    marks: dict[str, str] = field(default_factory=dict)
    has_decimals: bool = True


def find(text: str, spec: FieldSpec, page: Conventions) -> list[Found]:
    """All values of the field's type in an NFKC text, in their order; those that its pattern forbids are none."""
    found = _FINDERS[spec.type](text, page)
    if spec.pattern is None:
        return found
    if spec.type in (FieldType.TEXT, FieldType.ID):
        return [Found(start, end, text[start:end].strip()) for start, end in patterns.spans(spec.pattern, text)]
    return [one for one in found if patterns.fits(spec.pattern, one.value)]


def normalised(text: str, spec: FieldSpec, page: Conventions | None = None) -> Found | None:
    """The whole text as one value of the field's type (what a person or a model wrote); None where it is none."""
    page = page or Conventions()
    text = text.strip()
    if spec.type is FieldType.TEXT:
        return Found(0, len(text), text) if text else None
    if spec.type is FieldType.ID:
        return Found(0, len(text), " ".join(text.split())) if text else None
    found = _FINDERS[spec.type](text, page if page.has_decimals is False else _lenient(page))
    if len(found) != 1:
        return None
    rest = text[: found[0].start] + text[found[0].end :]
    return None if any(char.isalnum() for char in rest) else found[0]


def times(text: str) -> list[Found]:
    """Times of day as HH:MM or HH:MM:SS."""
    return [_time(match) for match in _TIME.finditer(text)]


def masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with NULs over the spans, so that no other type reads them."""
    for start, end in spans:
        text = f"{text[:start]}{chr(0) * (end - start)}{text[end:]}"
    return text


def _lenient(page: Conventions) -> Conventions:
    return Conventions(page.decimal_mark, page.currency, page.is_day_first, page.marks, has_decimals=False)


def _texts(text: str, _page: Conventions) -> list[Found]:
    stripped = text.lstrip(_LEADING).rstrip(_TRAILING)
    if not any(char.isalnum() for char in stripped):
        return []
    start = text.index(stripped)
    return [Found(start, start + len(stripped), stripped)]


def _dates(text: str, page: Conventions) -> list[Found]:
    return [_dated(one, page) for one in dates(text)]


def _dated(one: FoundDate, page: Conventions) -> Found:
    value = one.value
    if one.other is not None and page.is_day_first is False:
        value = one.other
    is_sure = one.other is None or page.is_day_first is not None
    return Found(one.start, one.end, value.isoformat(), is_sure=is_sure)


def _money(text: str, page: Conventions) -> list[Found]:
    return [found for found in (_amount(one, page) for one in _unmasked(text)) if found is not None]


def _amount(one: FoundAmount, page: Conventions) -> Found | None:
    value = one.value(page.decimal_mark)
    if value is None or (page.has_decimals and not one.has_decimals and one.currency is None):
        return None
    currency = page.marks.get(one.currency, one.currency) if one.currency else page.currency
    return Found(
        one.start, one.end, decimal_text(value, is_money=True), currency if currency not in ("¥", "kr") else None
    )


def _numbers(text: str, page: Conventions) -> list[Found]:
    valued = ((one, one.value(page.decimal_mark)) for one in _unmasked(text))
    return [
        Found(one.start, one.end, decimal_text(value, is_money=False)) for one, value in valued if value is not None
    ]


def _unmasked(text: str) -> list[FoundAmount]:
    hidden = [(one.start, one.end) for one in dates(text)] + [match.span() for match in _TIME.finditer(text)]
    return amounts(masked(text, hidden))


def _ids(text: str, _page: Conventions) -> list[Found]:
    text = masked(text, [(one.start, one.end) for one in dates(text)])
    whole = _ID_IN_GROUPS.fullmatch(text)
    if whole:
        return [Found(whole.start(1), whole.end(1), whole[1])]
    matches = [match for match in _ID.finditer(text) if sum(map(str.isdigit, match[0])) >= 2 or len(match[0]) >= 3]
    return [Found(match.start(), match.end(), match[0]) for match in matches]


def _ibans(text: str, _page: Conventions) -> list[Found]:
    return [found for found in map(_iban, _IBAN.finditer(text)) if found is not None]


def _iban(match: re.Match[str]) -> Found | None:
    """The longest beginning with a right checksum: what follows an IBAN may look like more of it."""
    text = match[0]
    for end in range(len(text), 14, -1):
        compact = re.sub(r"[\s-]", "", text[:end])
        if text[end - 1].isalnum() and len(compact) <= 34 and iban.is_valid(compact):
            return Found(match.start(), match.start() + end, compact)
    return None


def _emails(text: str, _page: Conventions) -> list[Found]:
    return [Found(match.start(), match.end(), match[0].lower()) for match in _EMAIL.finditer(text)]


def _phones(text: str, _page: Conventions) -> list[Found]:
    text = masked(text, [(one.start, one.end) for one in dates(text)])
    found = []
    for match in _PHONE.finditer(text):
        digits = re.sub(r"\(0\)|\D", "", match[0])
        if _MIN_PHONE_DIGITS <= len(digits) <= _MAX_PHONE_DIGITS:
            plus = "+" if match[0].startswith("+") else ""
            found.append(Found(match.start(), match.end(), f"{plus}{digits}"))
    return found


def _time(match: re.Match[str]) -> Found:
    hour = int(match[1])
    half = (match[4] or match[6] or "").strip().lower()
    if half.startswith("p") and hour < 12:
        hour += 12
    seconds = f":{match[3]}" if match[3] else ""
    return Found(match.start(), match.end(), f"{hour:02d}:{match[2] or match[5]}{seconds}")


def number(text: str | None) -> Decimal | None:
    """Decimal text as a number; None for None, and for what is no number that can be counted with."""
    try:
        found = None if text is None else Decimal(text)
    except InvalidOperation:
        return None
    return found if found is not None and found.is_finite() and abs(found.adjusted()) < _MOST_DIGITS else None


_FINDERS: dict[FieldType, Callable[[str, Conventions], list[Found]]] = {
    FieldType.TEXT: _texts,
    FieldType.DATE: _dates,
    FieldType.MONEY: _money,
    FieldType.NUMBER: _numbers,
    FieldType.ID: _ids,
    FieldType.IBAN: _ibans,
    FieldType.EMAIL: _emails,
    FieldType.PHONE: _phones,
    FieldType.ROWS: lambda _text, _page: [],
}
