"""The fields of a whole document: those of its pages as one, and whether they keep the rules. Pure.

Rules are judged each time they are shown, so a correction is judged at once; what is stored is what was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from portal.domain import FieldSpec, FieldType
from portal.engine.fields import patterns
from portal.engine.fields.totals import Fields, Totals
from portal.engine.fields.values import number
from portal.page_text import FieldState, FieldValue

_ROUNDING = Decimal("0.01")
_TOLERANCE_MOST = Decimal("0.05")
# In steps of `patterns.cost`, for one look at a document: at most a second of a processor.
_MOST_MATCHING = 2_000_000_000
_MOST_TOLD = 10


class _Matching:
    """How many steps of matching are left to one look at a document: a count, so that each look tells the same."""

    def __init__(self) -> None:
        self._left = _MOST_MATCHING

    def message(self, pattern: str, value: str) -> str | None:
        self._left -= patterns.cost(pattern, value)
        if self._left < 0:
            return "was not compared with its pattern: the document has too many long values"
        return None if patterns.fits(pattern, value) else f"does not fit {pattern}"


def merged(specs: Sequence[FieldSpec], pages: Iterable[tuple[int, Sequence[FieldValue]]]) -> tuple[FieldValue, ...]:
    """One list of values from those of the pages, each with its page's position, in the order of `specs`.

    A single value is the one that a person checked, else the surest; rows and `many` values of all pages follow each
    other. A field that no page has is there with the value None.
    """
    found = [replace(value, page=position) for position, values in pages for value in values]
    return tuple(value for spec in specs for value in _merged(spec, [one for one in found if one.name == spec.name]))


def judged(specs: Sequence[FieldSpec], values: Sequence[FieldValue]) -> tuple[FieldValue, ...]:
    """The values with the state and the messages of the rules that they break."""
    return _all_judged(specs, values, _Matching())


def _all_judged(
    specs: Sequence[FieldSpec], values: Sequence[FieldValue], matching: _Matching
) -> tuple[FieldValue, ...]:
    by_name: dict[str, list[FieldValue]] = {spec.name: [] for spec in specs}
    for value in values:
        by_name.setdefault(value.name, []).append(value)
    totals = Totals(by_name)
    return tuple(value for spec in specs for value in _judged(spec, totals, matching))


def needs_check(values: Iterable[FieldValue]) -> bool:
    """True when one of the values breaks a rule or was found nowhere on the page, and no person has checked it."""
    return any(is_to_check(value) or any(needs_check(row) for row in value.rows) for value in values)


def is_to_check(value: FieldValue) -> bool:
    """True for a broken rule, and for a value that bears a message of its engine."""
    return value.state is FieldState.RULE_FAILED or (bool(value.messages) and value.state is FieldState.READ)


def _merged(spec: FieldSpec, found: list[FieldValue]) -> list[FieldValue]:
    if spec.type is FieldType.ROWS:
        rows = tuple(tuple(replace(cell, page=one.page) for cell in row) for one in found for row in one.rows)
        return [FieldValue(spec.name, rows=rows, page=found[0].page if found else None)]
    given = [value for value in found if value.value is not None or value.original is not None or value.messages]
    if not given:
        return [FieldValue(spec.name, page=found[0].page if found else None)]
    if spec.many:
        return given
    return [max(given, key=_sureness)]


def _sureness(value: FieldValue) -> tuple[bool, bool, float]:
    return value.state is FieldState.CHECKED, value.value is not None, value.score or 0.0


def _judged(spec: FieldSpec, totals: Totals, matching: _Matching) -> list[FieldValue]:
    values = totals.fields.get(spec.name) or [FieldValue(spec.name)]
    if spec.type is FieldType.ROWS:
        value = replace(values[0], rows=tuple(_all_judged(spec.children, row, matching) for row in values[0].rows))
        return [_with(value, _missing(spec, bool(value.rows)))]
    return [_with(value, _breaks(spec, value, totals, matching)) for value in values]


def _with(value: FieldValue, broken: list[str]) -> FieldValue:
    if not broken:
        return value
    return replace(value, state=FieldState.RULE_FAILED, messages=(*value.messages, *broken))


def _breaks(spec: FieldSpec, value: FieldValue, totals: Totals, matching: _Matching) -> list[str]:
    if value.value is None:
        return _missing(spec, False)
    told = (
        matching.message(spec.pattern, value.value) if spec.pattern else None,
        _allowed(spec, value.value),
        _range(spec, value.value),
        _order(spec, value.value, totals.fields),
        _sum(spec, value.value, totals),
    )
    return [message for message in told if message]


def _missing(spec: FieldSpec, is_there: bool) -> list[str]:
    return [] if is_there or not spec.required else ["required, but not found"]


def _allowed(spec: FieldSpec, value: str) -> str | None:
    if not spec.allowed or value.casefold() in (one.casefold() for one in spec.allowed):
        return None
    return f"is none of: {', '.join(spec.allowed[:_MOST_TOLD])}"


def _range(spec: FieldSpec, value: str) -> str | None:
    for bound, is_beyond, words in ((spec.minimum, _is_less, "is less than"), (spec.maximum, _is_more, "is more than")):
        if bound is not None and is_beyond(spec, value, bound):
            return f"{words} {bound}"
    return None


def _is_less(spec: FieldSpec, value: str, bound: str) -> bool:
    if spec.type is FieldType.DATE:
        return value < bound
    own, least = number(value), number(bound)
    return own is not None and least is not None and own < least


def _is_more(spec: FieldSpec, value: str, bound: str) -> bool:
    if spec.type is FieldType.DATE:
        return value > bound
    own, most = number(value), number(bound)
    return own is not None and most is not None and own > most


def _order(spec: FieldSpec, value: str, fields: Fields) -> str | None:
    """Dates alone are compared: of anything else, as older jobs may ask it, nothing is said."""
    if spec.type is not FieldType.DATE:
        return None
    others = fields.get(spec.not_before or "", ())
    if any(other.value is not None and value < other.value for other in others):
        return f"is before {spec.not_before}"
    return None


def _sum(spec: FieldSpec, value: str, totals: Totals) -> str | None:
    """One of the alternatives must add up; those with a part that was not found say nothing."""
    own = number(value)
    sums = totals.of(spec.sum_of)
    if own is None or not sums:
        return None
    if any(abs(own - total) <= min(_TOLERANCE_MOST, _ROUNDING * max(1, terms)) for total, terms in sums):
        return None
    formulas, found = spec.sum_of[:_MOST_TOLD], (str(total) for total, _ in sums[:_MOST_TOLD])
    return f"is not the sum of {' or of '.join(formulas)} ({', '.join(found)})"
