"""Boxes for values of a page that was read without places, from a second reading that has lines with boxes. Pure.

Only values are looked up: the text stays that of the first reading. A box is given only where the second reading says
the same; a value that it does not find keeps what it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.answers import BY_MODEL, NO_SOURCE, SEEN_BY_MODEL, LookUp
from portal.engine.fields.values import Found
from portal.page_text import FieldValue, PageText

_SHORTEST_CELL = 3


def lack_boxes(values: Sequence[FieldValue] | None) -> bool:
    """True when a value, or a cell of rows, has no box and might get one."""
    return any(lack_boxes([cell for row in one.rows for cell in row]) or _lacks(one) for one in values or ())


def with_boxes(values: Sequence[FieldValue], specs: Sequence[FieldSpec], seen: PageText) -> tuple[FieldValue, ...]:
    """The values with the boxes of the lines of `seen` that say the same; one that is found is no longer unsourced.

    `seen` is the same page, the same way up.
    """
    look_up = LookUp(seen)
    kinds = {spec.name: spec for spec in specs}
    return tuple(_placed(value, kinds[value.name], look_up) for value in values)


def _lacks(value: FieldValue) -> bool:
    return value.value is not None and value.box is None


def _placed(value: FieldValue, spec: FieldSpec, look_up: LookUp) -> FieldValue:
    if spec.type is FieldType.ROWS:
        kinds = {child.name: child for child in spec.children}
        rows = tuple(tuple(_placed_cell(cell, kinds[cell.name], look_up) for cell in row) for row in value.rows)
        return replace(value, rows=rows)
    spot = look_up.spot(spec, Found(0, 0, value.value or "", value.currency)) if _lacks(value) else None
    if spot is None:
        return value
    return replace(
        value,
        box=spot.box,
        quad=spot.quad,
        score=round(spot.score, 3) if value.score is None else value.score,
        how=SEEN_BY_MODEL if (value.how or "").startswith(BY_MODEL) else value.how,
        messages=tuple(message for message in value.messages if message != NO_SOURCE),
    )


def _placed_cell(cell: FieldValue, spec: FieldSpec, look_up: LookUp) -> FieldValue:
    """A count like 1 stands in many lines: no box is better than that of another one."""
    return cell if len(cell.value or "") < _SHORTEST_CELL else _placed(cell, spec, look_up)
