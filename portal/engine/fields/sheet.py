"""A page as the matcher sees it: its lines straightened, in rows, with the labels found in them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from portal.domain import FieldSpec
from portal.engine.fields.amounts import FoundAmount, amounts, page_decimal_mark
from portal.engine.fields.dates import dates
from portal.engine.fields.effort import Effort
from portal.engine.fields.labels import Meaning, digit_of, folded_char, is_vowel_sign, vocabulary
from portal.engine.fields.values import Conventions, Found, find, masked
from portal.engine.geometry import straightened
from portal.page_text import Box, PageText, Quad

_LONGEST_LABEL = 48
# Bounds on the work that a hostile page may make; a dense A4 page has some 300 lines of 120 characters.
_MOST_LINES, _LONGEST_LINE, _MOST_LABELS = 3000, 1000, 20
_GOES_ON = re.compile(r"[.,]?\d|[^\W\d_]")
_CLOSERS = frozenset(":：=#")
_OPENERS = frozenset("/|·•*-–—(（[【【<,;")
_KANA = ("\u3040", "\u30ff")
_CJK = ("\u3040", "\u9fff")


@dataclass(frozen=True, slots=True)
class Hit:
    """A label at [start, end) of a spot's text.

    `is_anchored`: it begins its spot, or follows a mark that parts; `is_closed`: a colon or the like follows it, or
    nothing. `size` is its folded length.
    """

    start: int
    end: int
    meanings: tuple[Meaning, ...]
    is_anchored: bool
    is_closed: bool
    size: int

    def weakness(self, concepts: frozenset[str]) -> bool | None:
        """Whether it is a weak label of one of the concepts; None where it is no label of them."""
        found = [meaning.is_weak for meaning in self.meanings if meaning.concept in concepts]
        return all(found) if found else None


@dataclass(frozen=True)
class Spot:
    """One line of the page: its NFKC text and its place on the straightened page, in pixels."""

    index: int
    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    box: Box
    quad: Quad | None
    score: float
    hits: tuple[Hit, ...]
    column_hits: tuple[Hit, ...]

    @property
    def height(self) -> float:
        """Pixels from top to bottom."""
        return self.y1 - self.y0

    @property
    def middle(self) -> float:
        """Height of the centre."""
        return (self.y0 + self.y1) / 2

    @property
    def is_label(self) -> bool:
        """True when a label begins it and hardly anything else stands in it; a label may have digits itself."""
        rest = masked(self.text, [(hit.start, hit.end) for hit in self.hits])
        return any(hit.is_anchored for hit in self.hits) and not any(map(str.isdigit, rest))


class Sheet:
    """The spots of a page with its conventions. `own` are labels of the asked fields, folded → meanings.

    It is one thread's, whose time for the page's fields runs from now (`effort`). Making it may raise EngineError.
    """

    def __init__(self, page: PageText, own: Mapping[str, tuple[Meaning, ...]]) -> None:
        known = vocabulary()
        self.effort = Effort()
        self.width, self.height = max(page.width_px, 1), max(page.height_px, 1)
        self.spots: list[Spot] = []
        for index, line in enumerate(page.lines[:_MOST_LINES]):
            if line.box is None:
                continue
            self.effort.check()
            text = unicodedata.normalize("NFKC", line.text[:_LONGEST_LINE])
            x0, y0, x1, y1 = straightened(line, page.skew_degrees)
            score = 0.9 if line.score is None else line.score
            letters = _letters(text)
            hits = _hits(text, letters, (own, known.labels))
            columns = _hits(text, letters, (own, known.columns))
            self.spots.append(Spot(index, text, x0, y0, x1, y1, line.box, line.quad, score, hits, columns))
        self.line_height = median([spot.height for spot in self.spots] or [20.0])

    def find(self, text: str, spec: FieldSpec) -> list[Found]:
        """The values of the field's type in a text of this page. Raises EngineError when the page's time is up."""
        self.effort.check()
        return find(text, spec, self.conventions)

    @cached_property
    def rows(self) -> list[list[Spot]]:
        """Spots at one height, from left to right; rows from top to bottom."""
        rows: list[list[Spot]] = []
        for spot in sorted(self.spots, key=lambda one: one.middle):
            last = rows[-1] if rows else []
            near = bool(last) and abs(spot.middle - _middle(last)) < 0.55 * min(spot.height, _height(last))
            if near:
                last.append(spot)
            else:
                rows.append([spot])
        return [sorted(row, key=lambda one: one.x0) for row in rows]

    @cached_property
    def row_of(self) -> dict[int, int]:
        """Spot index → place of its row."""
        return {spot.index: at for at, row in enumerate(self.rows) for spot in row}

    @cached_property
    def conventions(self) -> Conventions:
        """How the page writes numbers, money and dates."""
        found = [amount for spot in self.spots for amount in amounts(spot.text)]
        text = "\n".join(spot.text for spot in self.spots)
        marks = _currency_marks(text)
        currencies = {marks.get(amount.currency, amount.currency) for amount in found if amount.currency}
        currency = currencies.pop() if len(currencies) == 1 else _named_currency(text) if not currencies else None
        orders = {one.is_day_first for spot in self.spots for one in dates(spot.text)} - {None}
        is_day_first = orders.pop() if len(orders) == 1 else False if currency == "USD" else None
        return Conventions(
            decimal_mark=page_decimal_mark(found),
            currency=currency,
            is_day_first=is_day_first,
            marks=marks,
            has_decimals=_has_decimals(found, currency),
        )


def _has_decimals(found: Iterable[FoundAmount], currency: str | None) -> bool:
    return currency not in ("JPY", "KRW") and any(amount.has_decimals for amount in found)


def _middle(row: list[Spot]) -> float:
    return sum(spot.middle for spot in row) / len(row)


def _height(row: list[Spot]) -> float:
    return max(spot.height for spot in row)


def _named_currency(text: str) -> str | None:
    """The one currency that the page names apart from its amounts, as in 'Total EUR'."""
    named = {code for code in ("EUR", "DKK", "SEK", "NOK", "USD", "GBP", "CHF", "JPY", "CNY", "BRL") if code in text}
    return named.pop() if len(named) == 1 else None


def _currency_marks(text: str) -> dict[str, str]:
    """What marks that several currencies share mean on this page."""
    marks: dict[str, str] = {}
    if any(_KANA[0] <= char <= _KANA[1] for char in text):
        marks["¥"] = "JPY"
    elif any(_CJK[0] <= char <= _CJK[1] for char in text):
        marks["¥"] = "CNY"
    crowns = [code for code in ("DKK", "SEK", "NOK") if code in text]
    danish, swedish = (sum(text.lower().count(char) for char in chars) for chars in ("øæ", "öä"))
    if len(crowns) == 1:
        marks["kr"] = crowns[0]
    elif danish != swedish:
        marks["kr"] = "DKK" if danish > swedish else "SEK"
    return marks


@dataclass(frozen=True, slots=True)
class _Letter:
    at: int
    starts: bool
    ends: bool


def _letters(text: str) -> tuple[str, list[_Letter]]:
    """The folded text, and for each folded letter its place and whether a word may begin or end there."""
    parts: list[str] = []
    letters: list[_Letter] = []
    for at, char in enumerate(text):
        if char.isdigit():
            # A label may have a digit in it or end in one: "reading1", but not in "Reading 12" or "Reading 1.5".
            parts.append(digit_of(char))
            letters.append(_Letter(at, starts=False, ends=_GOES_ON.match(text, at + 1) is None))
            continue
        starts = at == 0 or _is_parted(char, text[at - 1])
        ends = at + 1 == len(text) or _is_parted(char, text[at + 1])
        for part in folded_char(char):
            parts.append(part)
            letters.append(_Letter(at, starts, ends))
    return "".join(parts), letters


def _is_parted(char: str, beside: str) -> bool:
    """True where a word may end between a letter and the character beside it."""
    is_word = beside.isalnum() or is_vowel_sign(beside)
    return not is_word or _is_cjk(char) or _is_cjk(beside) or beside.isdigit()


def _hits(
    text: str, folded: tuple[str, list[_Letter]], vocabularies: tuple[Mapping[str, tuple[Meaning, ...]], ...]
) -> tuple[Hit, ...]:
    """The longest labels, none within another."""
    key, letters = folded
    found: list[Hit] = []
    at = 0
    while at < len(key) and len(found) < _MOST_LABELS:
        end = _longest(key, letters, at, vocabularies) if letters[at].starts else at
        if end == at:
            at += 1
            continue
        meanings = tuple(meaning for words in vocabularies for meaning in words.get(key[at:end], ()))
        hit = _hit(text, letters[at].at, letters[end - 1].at + 1, meanings, found)
        if hit is not None:
            found.append(hit)
        at = end
    return tuple(found)


def _longest(
    key: str, letters: list[_Letter], at: int, vocabularies: tuple[Mapping[str, tuple[Meaning, ...]], ...]
) -> int:
    for end in range(min(len(key), at + _LONGEST_LABEL), at, -1):
        if letters[end - 1].ends and any(key[at:end] in words for words in vocabularies):
            return end
    return at


def _hit(text: str, start: int, end: int, meanings: tuple[Meaning, ...], before: list[Hit]) -> Hit | None:
    lead = text[:start].rstrip()
    rest = text[end:].lstrip(" .)）」】]°ºª")
    follows = bool(before) and not any(char.isalnum() for char in text[before[-1].end : start])
    is_anchored = not any(char.isalnum() for char in lead) or follows or lead[-1] in _OPENERS or lead[-1] in _CLOSERS
    is_closed = not rest or rest[0] in _CLOSERS
    size = sum(char.isalpha() for char in text[start:end])
    is_short = size <= 2 and not _is_cjk(text[start])
    if is_short and not (is_closed and rest and is_anchored) and not _stands_alone(text, start, end):
        return None
    return Hit(start, end, meanings, is_anchored, is_closed, size)


def _stands_alone(text: str, start: int, end: int) -> bool:
    return not any(char.isalnum() for char in text[:start] + text[end:])


def _is_cjk(char: str) -> bool:
    return _CJK[0] <= char <= _CJK[1] or "\u3400" <= char <= "\u4dbf"
