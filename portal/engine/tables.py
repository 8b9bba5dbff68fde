"""Rows of fragments to blocks: paragraphs, and tables where neighbouring rows share column slots. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from portal.engine.reading_order import Fragment, Region, Row
from portal.page_text import Block

Slot = tuple[float, float]

_MIN_TABLE_ROWS = 3
_MIN_FILLED = 0.5
_MIN_ALIGNED = 0.8
_MIN_PAIRS = 0.75
_MOST_HEAD_ROWS = 5
_TIGHT = 0.65


def to_blocks(region: Region) -> list[Block]:
    """Blocks of a region in its order; each fragment comes out in exactly one cell."""
    blocks: list[Block] = []
    start = 0
    for first, last in _runs(region):
        slots = _slots(region[first:last])
        if slots is not None:
            blocks += _paragraphs(region[start:first])
            blocks.append(_table(_with_one_head(region[first:last], slots), slots))
            start = last
    return blocks + _paragraphs(region[start:])


def _runs(region: Region) -> list[tuple[int, int]]:
    """Half-open spans of rows that may be a table: several cells each, a lone wrapped line between allowed."""
    pitch = _pitch(region)
    runs: list[tuple[int, int]] = []
    first = last = -1
    for at, row in enumerate(region):
        is_near = last >= 0 and at - last <= 2 and _gap(region, at) <= 2.5 * pitch
        if first >= 0 and not is_near:
            runs.append((first, last + 1))
            first = last = -1
        if len(row) > 1:
            first, last = (at if first < 0 else first), at
    if first >= 0:
        runs.append((first, last + 1))
    return [(first, last) for first, last in runs if sum(len(row) > 1 for row in region[first:last]) >= _MIN_TABLE_ROWS]


def _slots(rows: Sequence[Row]) -> list[Slot] | None:
    """Column slots of the rows, or None where the rows do not line up."""
    slots: list[Slot] = []
    # The fullest rows know the columns best; a heading over two columns must not fuse them.
    for row in sorted(rows, key=len, reverse=True):
        for fragment in row:
            slots = _widened(slots, fragment)
    several = [row for row in rows if len(row) > 1]
    if len(slots) < 2 or len(slots) > 2 * max(len(row) for row in rows):
        return None
    aligned = sum(_is_aligned(row, slots) for row in several)
    filled = sum(len(row) for row in several) / (len(slots) * len(several))
    if aligned < _MIN_ALIGNED * len(several) or filled < _MIN_FILLED:
        return None
    return slots if len(slots) > 2 or len(several) >= _MIN_PAIRS * len(rows) else None


def _widened(slots: list[Slot], fragment: Fragment) -> list[Slot]:
    """The slots with room for the fragment; unchanged when it spans several."""
    under = _slots_under(fragment, slots)
    if len(under) > 1:
        return slots
    if not under:
        return sorted([*slots, (fragment.x0, fragment.x1)])
    at = under[0]
    wider = (min(slots[at][0], fragment.x0), max(slots[at][1], fragment.x1))
    return [*slots[:at], wider, *slots[at + 1 :]]


def _is_aligned(row: Row, slots: Sequence[Slot]) -> bool:
    """Each fragment of the row lies in a slot of its own."""
    under = [_slots_under(fragment, slots) for fragment in row]
    return all(len(own) == 1 for own in under) and len({own[0] for own in under}) == len(row)


def _slots_under(fragment: Fragment, slots: Sequence[Slot]) -> list[int]:
    return [at for at, (start, end) in enumerate(slots) if fragment.x0 < end and fragment.x1 > start]


def _slot_of(fragment: Fragment, slots: Sequence[Slot]) -> int:
    def overlap(at: int) -> float:
        return min(fragment.x1, slots[at][1]) - max(fragment.x0, slots[at][0])

    return max(range(len(slots)), key=overlap)


def _with_one_head(rows: Region, slots: Sequence[Slot]) -> Region:
    """The rows with those of a head of several lines as one.

    They are: none fills all columns, together they do, and they follow each other far closer than the rows of
    the body. Where the gaps do not tell head from body the rows stay apart.
    """
    gaps = [_gap(rows, at) for at in range(len(rows))]
    for count in range(min(_MOST_HEAD_ROWS, len(rows) - 2), 1, -1):
        head = rows[:count]
        used = {_slot_of(fragment, slots) for row in head for fragment in row}
        is_partial = all(len(row) < len(slots) for row in head)
        if is_partial and len(used) == len(slots) and max(gaps[1:count]) <= _TIGHT * min(gaps[count:]):
            return [[fragment for row in head for fragment in row], *rows[count:]]
    return rows


def _table(rows: Sequence[Row], slots: Sequence[Slot]) -> Block:
    """A row without its own first cell continues the cells above it when it follows closely: a wrapped line."""
    table: list[list[list[int]]] = []
    for row in rows:
        cells: list[list[int]] = [[] for _ in slots]
        for fragment in row:
            cells[_slot_of(fragment, slots)].append(fragment.index)
        if table and len(row) == 1 and len(slots) > 2:
            table[-1] = [above + below for above, below in zip(table[-1], cells, strict=True)]
        else:
            table.append(cells)
    return Block("table", tuple(tuple(tuple(cell) for cell in cells) for cells in table))


def _paragraphs(rows: Region) -> list[Block]:
    pitch = _pitch(rows)
    groups: list[Region] = []
    for at, row in enumerate(rows):
        if at == 0 or _gap(rows, at) > 1.5 * pitch:
            groups.append([])
        groups[-1].append(row)
    return [_text(group) for group in groups]


def _text(rows: Region) -> Block:
    return Block("text", tuple((tuple(fragment.index for fragment in row),) for row in rows))


def _pitch(rows: Region) -> float:
    """Usual distance from row to row, at least a line's height."""
    gaps = [_gap(rows, at) for at in range(1, len(rows))]
    height = median([fragment.height for row in rows for fragment in row] or [0.0])
    return max(median(gaps or [0.0]), 0.9 * height)


def _gap(rows: Region, at: int) -> float:
    return _middle(rows[at]) - _middle(rows[at - 1]) if at else 0.0


def _middle(row: Row) -> float:
    return sum(fragment.middle for fragment in row) / len(row)
