"""Numbers and amounts of money in texts → decimal text and currency code. Codes come from Babel. Pure.

A comma or a point before one or two last digits is a decimal mark, before three it groups thousands; a lone one
before three digits follows the page's other amounts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from babel.numbers import list_currencies

_SYMBOLS = {
    "€": "EUR", "£": "GBP", "US$": "USD", "A$": "AUD", "C$": "CAD", "R$": "BRL", "$": "USD", "円": "JPY", "元": "CNY",
    "RM": "MYR", "Fr.": "CHF", "SFr.": "CHF", "zł": "PLN", "₹": "INR", "₩": "KRW", "NT$": "TWD", "HK$": "HKD",
    "¥": "¥", "kr": "kr", "kr.": "kr", "euro": "EUR", "euros": "EUR", "圆": "CNY",
    "人民币": "CNY", "人民幣": "CNY", "RMB": "CNY", "NTD": "TWD", "新台币": "TWD", "新台幣": "TWD", "新臺幣": "TWD",
    "港币": "HKD", "港幣": "HKD",
}  # fmt: skip
# Codes that are words too, in capitals as receipts print them.
_WORDS = {"ALL", "TOP", "CUP", "MOP", "PEN", "LAK", "GEL", "SOS", "MUR", "BAM", "ANG", "BOB", "DOP", "RON", "COP"}
_NUMBER = r"\d{1,3}(?:[.,'’´` ]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,3})?"
_AMOUNT = re.compile(
    rf"(?<![\d.,:/])(?<!\w-)(?P<sign>[-−–(]\s?)?(?P<number>{_NUMBER})(?P<dash>[.,:]\s?[-–—]{{1,2}}(?!\d))?(?P<ore>:\d{{2}}(?=\s?kr|\s?SEK))?"
    r"(?P<minus>-)?(?![.,:/]?\d|\s?[%％‰])"
)
_LONGEST = 20
_BEFORE = re.compile(r"(\S{1,4})\s?$")
_AFTER = re.compile(r"\s?([^\s\d.,;:()]{1,5}\.?)")


@dataclass(frozen=True, slots=True)
class FoundAmount:
    """A number at [start, end) of a text, its currency's marks included.

    `value` is None while only the page can tell (`digits` has it then with its mark). `has_decimals`: two of them.
    """

    start: int
    end: int
    digits: str
    is_negative: bool
    currency: str | None
    has_decimals: bool
    decimal_mark: str | None

    def value(self, mark: str | None) -> Decimal | None:
        """The number on a page whose decimal mark is `mark`; None where that leaves it open."""
        text = _plain(self.digits, mark)
        return None if text is None else Decimal(text) * (-1 if self.is_negative else 1)


def amounts(text: str) -> list[FoundAmount]:
    """All numbers of an NFKC text in their order; percentages, times and parts of words are none."""
    return [_found(text, match) for match in _AMOUNT.finditer(text) if len(match["number"]) <= _LONGEST]


def page_decimal_mark(found: list[FoundAmount]) -> str | None:
    """The mark that the amounts of a page agree on, None where none tells or they differ."""
    points = sum(amount.decimal_mark == "." for amount in found)
    commas = sum(amount.decimal_mark == "," for amount in found)
    if points == commas:
        return None
    return "." if points > commas else ","


def decimal_text(value: Decimal, *, is_money: bool) -> str:
    """`1267.35`; money has two decimals unless it is whole: then none are made up."""
    if is_money and value.as_tuple().exponent == -1:
        value = value.quantize(Decimal("0.01"))
    return format(value, "f")


@cache
def currency_codes() -> frozenset[str]:
    """ISO 4217 codes, without those that receipts print as words."""
    return frozenset(list_currencies()) - _WORDS


def _found(text: str, match: re.Match[str]) -> FoundAmount:
    digits = match["number"]
    if match["ore"]:
        digits = f"{digits}{match['ore'].replace(':', ',')}"
    before, start = _currency_before(text, match.start())
    after, end = _currency_after(text, match.end())
    mark = None if match["dash"] or match["ore"] else _certain_mark(digits)
    return FoundAmount(
        start=start,
        end=end,
        digits=digits,
        is_negative=_is_negative(text, match),
        currency=before or after,
        has_decimals=bool(match["dash"] or match["ore"]) or re.search(r"[.,]\d{2}$", digits) is not None,
        decimal_mark=mark,
    )


def _is_negative(text: str, match: re.Match[str]) -> bool:
    """By a minus at either side, or in brackets, as accountants write it."""
    sign = (match["sign"] or "").strip()
    if sign == "(":
        return text[match.end() : match.end() + 1] == ")" and not text[: match.start()].rstrip()[-1:].isalnum()
    return bool(sign or match["minus"])


def _currency_before(text: str, start: int) -> tuple[str | None, int]:
    near = _BEFORE.search(text[max(0, start - 6) : start])
    if near is None:
        return None, start
    for length in range(len(near[1]), 0, -1):
        mark = near[1][-length:]
        is_whole = length == len(near[1]) or not near[1][-length - 1].isalpha() or not mark[0].isalpha()
        code = _code(mark) if is_whole else None
        if code:
            return code, start - len(near[0]) + len(near[1]) - length
    return None, start


def _currency_after(text: str, end: int) -> tuple[str | None, int]:
    near = _AFTER.match(text, end)
    if near is None:
        return None, end
    for length in range(len(near[1]), 0, -1):
        mark = near[1][:length]
        is_whole = length == len(near[1]) or not near[1][length].isalpha() or not mark[-1].isascii()
        code = _code(mark) if is_whole else None
        if code:
            return code, end + (len(near[0]) - len(near[1])) + length
    return None, end


def _code(mark: str) -> str | None:
    if mark in _SYMBOLS:
        return _SYMBOLS[mark]
    if mark.casefold() in ("kr", "kr.", "euro", "euros"):
        return _SYMBOLS[mark.casefold()]
    return mark if mark in currency_codes() else None


def _certain_mark(digits: str) -> str | None:
    """The decimal mark of a number that can be read one way only."""
    marks = [char for char in digits if char in ".,"]
    if not marks or re.search(r"[.,]\d{3}$", digits):
        return None
    return marks[-1]


def _plain(digits: str, mark: str | None) -> str | None:
    digits = re.sub(r"['’´` ]", "", digits)
    marks = [char for char in digits if char in ".,"]
    if not marks:
        return digits
    last = digits.rindex(marks[-1])
    tail = len(digits) - last - 1
    is_grouping = tail == 3 and (len(marks) > 1 or mark != marks[-1])
    if tail == 3 and len(marks) == 1 and mark is None and last > 3:
        return None
    whole = re.sub(r"[.,]", "", digits if is_grouping else digits[:last])
    return whole if is_grouping else f"{whole}.{digits[last + 1 :]}"
