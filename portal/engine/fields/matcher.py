"""Finds values on a page by labels and geometry, without a language model. Pure; called in the engine's child.

A label in one of eleven languages, or the field's own name; its value stands after it, to its right, or below it, and
has the field's type. Where nothing bears a value out there is none: null rather than a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice

from portal.domain import FieldSpec, FieldType
from portal.engine.fields import sums, values
from portal.engine.fields.labels import Meaning, label_key, name_key, vocabulary
from portal.engine.fields.line_items import line_items
from portal.engine.fields.places import Place, is_of_another_sum, places
from portal.engine.fields.sheet import Hit, Sheet, Spot
from portal.engine.fields.text_rows import laid_out, without_places
from portal.engine.fields.values import Found
from portal.page_text import FieldValue, PageText

_SELF_EVIDENT = frozenset({FieldType.IBAN, FieldType.EMAIL})
_TOTALS = frozenset({"total", "net", "tax"})
_OWN = "own:"
_UNSURE = 0.75
_MOST_CANDIDATES = 200
_RIVALS = 0.8
_TIME_PATTERN = r"(?:[01]?\d|2[0-3])[:.h時时][0-5]\d(?::[0-5]\d)?(?:\s?[AaPp][Mm])?"


@dataclass(frozen=True)
class Candidate:
    """A value with how well its label bears it out."""

    found: Found
    spot: Spot
    is_weak: bool
    is_anchored: bool
    size: int
    score: float
    how: str
    label: str = ""

    @property
    def rank(self) -> tuple[bool, bool]:
        """Strong labels before weak ones, those that begin their line before others."""
        return not self.is_weak, self.is_anchored


def from_page(page: PageText, specs: Sequence[FieldSpec]) -> tuple[FieldValue, ...]:
    """The fields' values on the page, in the order of `specs`; a field that is not found has the value None.

    A page without lines that have boxes, as some models answer, is matched by the rows of its text; its values then
    have no boxes. Raises EngineError when it takes too long.
    """
    if any(line.box for line in page.lines):
        return _found(page, specs)
    return tuple(without_places(value) for value in _found(laid_out(page), specs))


def _found(page: PageText, specs: Sequence[FieldSpec]) -> tuple[FieldValue, ...]:
    sheet = Sheet(page, _own_labels(specs))
    return tuple(value for spec in specs for value in _values(sheet, spec, _lookalikes(spec, specs)))


def concepts_of(spec: FieldSpec) -> frozenset[str]:
    """The concepts that the field's name stands for, and the field's own label.

    A name with a number in it ("address 2") is one of several, so its own label alone tells which.
    """
    key = label_key(spec.name)
    own = frozenset({_OWN + key}) if key else frozenset()
    if any(map(str.isdigit, key)):
        return own
    known = vocabulary().of(spec.name)
    # A name that means one thing surely and another loosely means the former.
    sure = {meaning.concept for meaning in known if not meaning.is_weak} or {meaning.concept for meaning in known}
    if "amount" in sure:  # the heads of columns are no labels of a page's own amount
        sure.add("total")
    return own | sure


def _own_labels(specs: Iterable[FieldSpec]) -> dict[str, tuple[Meaning, ...]]:
    own: dict[str, tuple[Meaning, ...]] = {}
    for spec in specs:
        key = label_key(spec.name)
        if len(key) >= 2 and key not in vocabulary().labels:
            own[key] = (Meaning(_OWN + key, is_weak=False),)
    return own


def _lookalikes(spec: FieldSpec, specs: Iterable[FieldSpec]) -> frozenset[str]:
    """The names of other fields that differ in i and l alone: a label that is one of them is theirs."""
    own, key = name_key(spec.name), label_key(spec.name)
    return frozenset(name_key(other.name) for other in specs if key and label_key(other.name) == key) - {own}


def _values(sheet: Sheet, spec: FieldSpec, others: frozenset[str]) -> list[FieldValue]:
    sheet.effort.check()
    if spec.type is FieldType.ROWS:
        return [FieldValue(spec.name, rows=line_items(sheet, spec))]
    concepts = concepts_of(spec)
    if "time" in concepts and spec.pattern is None:
        spec = replace(spec, pattern=_TIME_PATTERN)
    own = (one for one in _candidates(sheet, spec, concepts) if not others or name_key(one.label) not in others)
    found = list(islice(own, _MOST_CANDIDATES))
    if spec.many:
        return _all_of(sheet, spec, found) or [FieldValue(spec.name)]
    best = _proved_label(sheet, spec, concepts, found) or _best(found, concepts, spec)
    best = best or _unlabelled(sheet, spec, concepts)
    return [FieldValue(spec.name) if best is None else _value(spec, best)]


def _candidates(sheet: Sheet, spec: FieldSpec, concepts: frozenset[str]) -> Iterator[Candidate]:
    for spot in sheet.spots:
        for at, hit in enumerate(spot.hits):
            sheet.effort.check()
            is_weak = hit.weakness(concepts)
            if is_weak is None or (is_weak and not (hit.is_anchored or hit.is_closed)):
                continue
            if spec.type is FieldType.MONEY and is_of_another_sum(spot, at, concepts):
                continue
            place = next(places(sheet, spot, at, spec, concepts), None)
            if place is not None:
                yield _candidate(spot, hit, place, is_weak=is_weak)


def _candidate(label: Spot, hit: Hit, place: Place, *, is_weak: bool) -> Candidate:
    base = 0.8 if is_weak else 0.97
    certainty = base * place.weight * (1.0 if hit.is_anchored else 0.85) * min(1.0, place.spot.score)
    if not place.found.is_sure:
        certainty *= _UNSURE
    name = label.text[hit.start : hit.end].strip()
    how = f"{place.where} '{name}'"
    return Candidate(place.found, place.spot, is_weak, hit.is_anchored, hit.size, certainty, how, name)


def _best(found: Sequence[Candidate], concepts: frozenset[str], spec: FieldSpec) -> Candidate | None:
    if not found:
        return None
    top = max(candidate.rank for candidate in found)
    rivals = [candidate for candidate in found if candidate.rank == top]
    best = rivals[0]
    if spec.type is FieldType.MONEY and concepts & _TOTALS:
        return max(rivals, key=lambda one: (abs(Decimal(one.found.value)), one.score))
    if len({one.found.value for one in rivals}) > 1:
        best = max(rivals, key=lambda one: (one.size, one.score))
        best = replace(best, score=best.score * _RIVALS)
    return best


def _all_of(sheet: Sheet, spec: FieldSpec, found: Sequence[Candidate]) -> list[FieldValue]:
    if spec.type in _SELF_EVIDENT:
        found = [_evident(one, spot) for spot, one in _everywhere(sheet, spec)]
    distinct: dict[str, Candidate] = {}
    for one in found:
        distinct.setdefault(one.found.value, one)
    return [_value(spec, one) for one in distinct.values()]


def _unlabelled(sheet: Sheet, spec: FieldSpec, concepts: frozenset[str]) -> Candidate | None:
    """A value that needs no label: the only one of a kind that proves itself, or the only date there is."""
    if spec.type is FieldType.MONEY and len(concepts & sums.PARTS) == 1:
        return _adding_up(sheet, spec, *(concepts & sums.PARTS))
    if spec.type in _SELF_EVIDENT or (spec.type is FieldType.DATE and "date" in concepts):
        everywhere = _everywhere(sheet, spec)
        if spec.type is FieldType.DATE:
            everywhere = _not_others(sheet, everywhere, concepts)
        if len({one.value for _, one in everywhere}) == 1:
            spot, one = everywhere[0]
            return _evident(one, spot)
    if "time" in concepts:
        return _only_time(sheet)
    if spec.pattern is not None and spec.type in (FieldType.TEXT, FieldType.ID):
        fitting = _everywhere(sheet, spec)
        return _evident(fitting[0][1], fitting[0][0]) if len({one.value for _, one in fitting}) == 1 else None
    if "seller" in concepts and spec.type is FieldType.TEXT and spec.pattern is None:
        return _top_of_page(sheet)
    return None


def _proved_label(
    sheet: Sheet, spec: FieldSpec, concepts: frozenset[str], found: Sequence[Candidate]
) -> Candidate | None:
    """Of several amounts with a label for it, the one that adds up: a subtotal may be of net or of gross prices."""
    is_part = spec.type is FieldType.MONEY and len(concepts & sums.PARTS) == 1
    if not is_part or len({one.found.value for one in found}) < 2:
        return None
    amount = _told_by_others(sheet, spec, *(concepts & sums.PARTS))
    return next((one for one in found if Decimal(one.found.value) == amount), None)


def _adding_up(sheet: Sheet, spec: FieldSpec, sought: str) -> Candidate | None:
    amount = _told_by_others(sheet, spec, sought)
    if amount is None:
        return None
    others = " and ".join(sorted(sums.PARTS - {sought}))
    proved = ((spot, one) for spot, one in _everywhere(sheet, spec) if Decimal(one.value) == amount)
    return next((replace(_evident(one, spot), how=f"adds up with {others}") for spot, one in proved), None)


def _told_by_others(sheet: Sheet, spec: FieldSpec, sought: str) -> Decimal | None:
    """What the other two of net, tax and total, as their labels tell them, say that `sought` is."""
    others: dict[str, Decimal] = {}
    for name in sums.PARTS - {sought}:
        found = list(islice(_candidates(sheet, spec, frozenset({name})), _MOST_CANDIDATES))
        best = _best(found, frozenset({name}), spec)
        if best is not None:
            others[name] = Decimal(best.found.value)
    return sums.third(sought, others)


def _everywhere(sheet: Sheet, spec: FieldSpec) -> list[tuple[Spot, Found]]:
    return [(spot, one) for spot in sheet.spots for one in sheet.find(spot.text, spec)]


def _not_others(sheet: Sheet, found: list[tuple[Spot, Found]], concepts: frozenset[str]) -> list[tuple[Spot, Found]]:
    """Dates that no label of another date claims; among several, those with a time of day beside them."""
    others = frozenset(name for name, type in vocabulary().types.items() if type is FieldType.DATE) - concepts
    other_spec = FieldSpec("other", FieldType.DATE)
    claimed = {(one.spot.index, one.found.start) for one in _candidates(sheet, other_spec, others)}
    free = [(spot, one) for spot, one in found if (spot.index, one.start) not in claimed]
    if len({one.value for _, one in free}) <= 1:
        return free
    return [(spot, one) for spot, one in free if _has_time(sheet, spot)]


def _has_time(sheet: Sheet, spot: Spot) -> bool:
    return any(values.times(other.text) for other in sheet.rows[sheet.row_of[spot.index]])


def _only_time(sheet: Sheet) -> Candidate | None:
    found = [(spot, one) for spot in sheet.spots for one in values.times(spot.text)]
    beside_dates = [(spot, one) for spot, one in found if sheet.find(spot.text, FieldSpec("", FieldType.DATE))]
    chosen = beside_dates or found
    if len({one.value for _, one in chosen}) != 1:
        return None
    return _evident(chosen[0][1], chosen[0][0])


def _top_of_page(sheet: Sheet) -> Candidate | None:
    """The first line with letters, where it is as large as the text below it: the name on top of the paper."""
    for row in sheet.rows[:3]:
        for spot in row:
            letters = sum(char.isalpha() for char in spot.text)
            if (
                letters >= 3
                and letters > 2 * sum(map(str.isdigit, spot.text))
                and not any(hit.is_anchored for hit in spot.hits)
            ):
                if spot.height >= 0.95 * sheet.line_height:
                    found = Found(0, len(spot.text), spot.text.strip())
                    return Candidate(found, spot, True, False, 0, 0.6 * min(1.0, spot.score), "on top of the page")
                return None
    return None


def _evident(one: Found, spot: Spot) -> Candidate:
    certainty = 0.9 * min(1.0, spot.score) * (1.0 if one.is_sure else _UNSURE)
    return Candidate(one, spot, False, False, 0, certainty, "the only one on the page")


def _value(spec: FieldSpec, one: Candidate) -> FieldValue:
    return FieldValue(
        name=spec.name,
        value=one.found.value,
        raw=one.spot.text[one.found.start : one.found.end].strip(),
        currency=one.found.currency,
        box=one.spot.box,
        quad=one.spot.quad,
        score=round(one.score, 3),
        how=one.how,
    )
