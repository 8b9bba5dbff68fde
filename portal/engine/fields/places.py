"""Where the value of a label stands: after it in its line, to its right in its row, or below it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.sheet import Hit, Sheet, Spot
from portal.engine.fields.values import Found

_BELOW_HEIGHTS = 3.0
_FAR_TEXT = 0.45
_SUMS = frozenset({"net", "tax", "total", "discount", "paid"})
_HOW_COUNTED = frozenset("込含前后後外别別抜")
_MOST_BETWEEN = 2
_ITEM_HEADS = frozenset({"quantity", "unit_price"})
# What may follow a label without changing what it is of: a rate, a currency, the same in another language.
_QUALIFIER = re.compile(
    r"\([^()]*\)?|@?\s*\d{1,2}(?:[.,]\d+)?\s?%|(?<!\w)(?:EUR|DKK|SEK|NOK|CHF|USD|GBP|JPY|CNY|BRL|MYR|RM|kr|TTC|T\.T\.C|incl|inkl|en|in)(?!\w)"
)
_MOST_LETTERS_BETWEEN = {
    FieldType.ID: 3,
    FieldType.DATE: 14,
    FieldType.PHONE: 4,
    FieldType.IBAN: 12,
    FieldType.EMAIL: 6,
}


@dataclass(frozen=True, slots=True)
class Place:
    """A value with the spot that it stands in, and how much that place bears it out (0–1)."""

    found: Found
    spot: Spot
    where: str
    weight: float


def places(sheet: Sheet, spot: Spot, at: int, spec: FieldSpec, concepts: frozenset[str]) -> Iterator[Place]:
    """Values for the label `spot.hits[at]`, the likeliest place first."""
    inline = _inline(sheet, spot, at, spec, concepts)
    if inline is not None:
        yield inline
        return
    hit = spot.hits[at]
    if _says_something(_QUALIFIER.sub("", _after(spot, at))):
        return  # something else follows the label: it is part of a sentence
    if spec.type is FieldType.MONEY and _heads_items(sheet, spot):
        return  # what stands below is a line's own amount, not a sum
    head = _is_head(sheet, spot)
    right, below = _right(sheet, spot, spec, concepts), _below(sheet, spot, hit, spec)
    for place in (below, right) if head else (right, below):
        if place is not None:
            yield place


def _after(spot: Spot, at: int) -> str:
    end = spot.hits[at + 1].start if at + 1 < len(spot.hits) else len(spot.text)
    return spot.text[spot.hits[at].end : end]


def _inline(sheet: Sheet, spot: Spot, at: int, spec: FieldSpec, concepts: frozenset[str]) -> Place | None:
    hit = spot.hits[at]
    last = at
    # Labels side by side ('Nr. / Datum') share what follows the last of them.
    while last + 1 < len(spot.hits) and not _says_something(spot.text[spot.hits[last].end : spot.hits[last + 1].start]):
        last += 1
    start = spot.hits[last].end
    following = next(
        (other.start for other in spot.hits[last + 1 :] if other.is_anchored or other.is_closed), len(spot.text)
    )
    segment = spot.text[start:following]
    if spec.type is FieldType.TEXT and spec.pattern is None:
        found = _inline_text(segment, hit, spec, sheet) if last == at else None
    else:
        found = _typed(segment, spec, sheet)
    if found is None:
        return None
    shifted = Found(found.start + start, found.end + start, found.value, found.currency, found.is_sure)
    return Place(shifted, spot, "after", 1.0 if last == at else 0.9)


def _says_something(text: str) -> bool:
    return any(char.isalnum() for char in text)


def _inline_text(segment: str, hit: Hit, spec: FieldSpec, sheet: Sheet) -> Found | None:
    if not (hit.is_closed and hit.is_anchored):
        return None
    found = sheet.find(segment, spec)
    return found[0] if found else None


def _typed(segment: str, spec: FieldSpec, sheet: Sheet) -> Found | None:
    found = sheet.find(segment, spec)
    if not found:
        return None
    if spec.type is FieldType.MONEY:
        return found[-1] if found[-1].currency or "." in found[-1].value else _near(segment, found[0], 3)
    most = _MOST_LETTERS_BETWEEN.get(spec.type)
    return found[0] if most is None else _near(segment, found[0], most)


def _near(segment: str, found: Found, most_letters: int) -> Found | None:
    """The value, where no more letters than that stand before it."""
    return found if sum(char.isalpha() for char in segment[: found.start]) <= most_letters else None


def _right(sheet: Sheet, label: Spot, spec: FieldSpec, concepts: frozenset[str]) -> Place | None:
    row = sheet.rows[sheet.row_of[label.index]]
    best = None
    for spot in row[row.index(label) + 1 :]:
        if _begins_with_other(spot, concepts):
            break
        found = sheet.find(spot.text, spec)
        if not found:
            if spec.type is not FieldType.MONEY and _says_something(spot.text):
                break
            continue
        if spec.type is FieldType.TEXT and spot.x0 - label.x1 > _FAR_TEXT * sheet.width:
            break
        best = Place(found[-1] if spec.type is FieldType.MONEY else found[0], spot, "right of", 0.97)
        if spec.type is not FieldType.MONEY:
            break
    return best


def _below(sheet: Sheet, label: Spot, hit: Hit, spec: FieldSpec) -> Place | None:
    height = max(label.height, sheet.line_height)
    near = []
    for spot in sheet.spots:
        gap = spot.y0 - label.y1
        if (
            spot is label
            or not -0.4 * height < gap < _BELOW_HEIGHTS * height
            or spot.middle < label.middle + 0.5 * height
        ):
            continue
        if _is_under(spot, label, height):
            near.append((spot.middle, abs(spot.x0 - label.x0), spot))
    if not near:
        return None
    spot = min(near)[2] if len(near) == 1 else min(near, key=lambda one: (round(one[0] / height), one[1]))[2]
    if any(other.is_anchored and other.size > 2 for other in spot.hits):
        return None
    found = sheet.find(spot.text, spec)
    if not found:
        return None
    covered = sum(one.end - one.start for one in found[:1]) / max(1, len(spot.text.strip()))
    if spec.type is not FieldType.MONEY and covered < 0.5:
        return None
    return Place(found[0], spot, "below", 0.92)


def _is_under(spot: Spot, label: Spot, height: float) -> bool:
    overlap = min(spot.x1, label.x1) - max(spot.x0, label.x0)
    is_aligned = abs(spot.x0 - label.x0) < height or abs(spot.x1 - label.x1) < height
    return is_aligned or overlap > 0.5 * min(spot.x1 - spot.x0, label.x1 - label.x0)


def _is_head(sheet: Sheet, label: Spot) -> bool:
    """True when the label stands beside other labels that have no values of their own: the head of a table."""
    row = sheet.rows[sheet.row_of[label.index]]
    return sum(spot.is_label or (spot is label) for spot in row) > 1


def _heads_items(sheet: Sheet, label: Spot) -> bool:
    """True when the label stands in a row of column heads beside that of what is counted or of its price."""
    row = sheet.rows[sheet.row_of[label.index]]
    if any(map(str.isdigit, "".join(spot.text for spot in row))):
        return False
    meanings = (meaning for spot in row if spot is not label for hit in spot.column_hits for meaning in hit.meanings)
    return any(meaning.concept in _ITEM_HEADS for meaning in meanings)


def is_of_another_sum(spot: Spot, at: int, concepts: frozenset[str]) -> bool:
    """True for the end of a word like 折扣总额 or 税费合计: what stands before says what it is the sum of.

    Not so where that says how it counts: 税込合計 is a total.
    """
    hit, others = spot.hits[at], _SUMS - concepts
    return any(
        before.weakness(others) is False and _is_one_word(spot.text[before.end : hit.start + 1])
        for before in spot.hits[:at]
    )


def _is_one_word(text: str) -> bool:
    is_short = len(text) <= _MOST_BETWEEN + 1
    return is_short and all("\u3400" <= char <= "\u9fff" and char not in _HOW_COUNTED for char in text)


def _begins_with_other(spot: Spot, concepts: frozenset[str]) -> bool:
    return any(
        hit.is_anchored and hit.start <= 2 and hit.weakness(concepts) is None for hit in spot.hits if hit.size > 2
    )
