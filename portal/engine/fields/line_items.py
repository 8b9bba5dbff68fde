"""The lines of an invoice or a receipt as rows: columns by their heads, or name left and amount right. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.domain import FieldSpec, FieldType
from portal.engine.fields.labels import label_key, vocabulary
from portal.engine.fields.sheet import Sheet, Spot
from portal.page_text import FieldValue

_MOST_ROWS = 200
_END = frozenset({"total", "net", "tax", "paid", "discount"})
_DESCRIPTION, _QUANTITY, _PRICE, _AMOUNT = "description", "quantity", "unit_price", "amount"
_SCORE = 0.85


@dataclass(frozen=True)
class Column:
    """A column of the table on the page: its concept and its head's extent."""

    concept: str
    x0: float
    x1: float


def line_items(sheet: Sheet, spec: FieldSpec) -> tuple[tuple[FieldValue, ...], ...]:
    """Rows of the children's values in their order; empty where the page has no such table."""
    wanted = {child.name: _concepts(child) for child in spec.children}
    head = _head(sheet, wanted)
    rows = _table_rows(sheet, *head) if head else _receipt_rows(sheet)
    found = (tuple(_cell(sheet, child, wanted[child.name], row) for child in spec.children) for row in rows)
    return tuple(row for row in found if any(value.value is not None for value in row))[:_MOST_ROWS]


def _concepts(child: FieldSpec) -> frozenset[str]:
    """What heads the child's column; of numbered columns ("amount 2") no head tells which is which."""
    if any(map(str.isdigit, label_key(child.name))):
        return frozenset()
    return frozenset(meaning.concept for meaning in vocabulary().of(child.name))


def _head(sheet: Sheet, wanted: Mapping[str, frozenset[str]]) -> tuple[int, list[Column]] | None:
    """The row with the most column heads, at least two, one of them a price or an amount."""
    best: tuple[int, list[Column]] | None = None
    for at, row in enumerate(sheet.rows):
        columns = _columns(row)
        concepts = {column.concept for column in columns}
        is_head = len(concepts) >= 2 and concepts & {_AMOUNT, _PRICE} and concepts & {_DESCRIPTION, _QUANTITY}
        if is_head and (best is None or len(columns) > len(best[1])):
            best = (at, columns)
    return best


def _columns(row: Sequence[Spot]) -> list[Column]:
    columns: list[Column] = []
    for spot in row:
        if any(map(str.isdigit, spot.text)):
            return []
        for hit in spot.column_hits:
            share = (spot.x1 - spot.x0) / max(1, len(spot.text))
            concepts = [meaning.concept for meaning in hit.meanings if not meaning.concept.startswith("own:")]
            taken = {column.concept for column in columns}
            concept = next((one for one in concepts if one not in taken), None)
            if concept is not None:
                columns.append(Column(concept, spot.x0 + share * hit.start, spot.x0 + share * hit.end))
    return columns


def _table_rows(sheet: Sheet, at: int, columns: list[Column]) -> list[dict[str, list[Spot]]]:
    rows: list[dict[str, list[Spot]]] = []
    last = sheet.rows[at]
    for row in sheet.rows[at + 1 :]:
        if _ends(row) or (rows and row[0].y0 - last[0].y1 > 3.5 * sheet.line_height):
            break
        cells = _cells(row, columns)
        has_number = any(
            any(map(str.isdigit, spot.text)) for concept in (_AMOUNT, _PRICE) for spot in cells.get(concept, ())
        )
        if has_number:
            rows.append(cells)
        elif rows and set(cells) == {_DESCRIPTION}:
            rows[-1].setdefault(_DESCRIPTION, []).extend(cells[_DESCRIPTION])
        last = row
    return rows


def _ends(row: Sequence[Spot]) -> bool:
    return any(hit.is_anchored and any(meaning.concept in _END for meaning in hit.meanings) for hit in row[0].hits)


def _cells(row: Sequence[Spot], columns: Sequence[Column]) -> dict[str, list[Spot]]:
    cells: dict[str, list[Spot]] = {}
    for spot in row:
        column = min(columns, key=lambda one: _distance(spot, one))
        cells.setdefault(column.concept, []).append(spot)
    return cells


def _distance(spot: Spot, column: Column) -> float:
    """Nought where they overlap most; else by the nearest edges, since columns are aligned at one side."""
    overlap = min(spot.x1, column.x1) - max(spot.x0, column.x0)
    edges = min(abs(spot.x0 - column.x0), abs(spot.x1 - column.x1), abs(spot.x0 + spot.x1 - column.x0 - column.x1) / 2)
    return -overlap / max(1.0, column.x1 - column.x0) if overlap > 0 else edges


def _receipt_rows(sheet: Sheet) -> list[dict[str, list[Spot]]]:
    """Rows of a name at the left and an amount at the right, above the first total."""
    rows: list[dict[str, list[Spot]]] = []
    for row in sheet.rows:
        if rows and _ends(row):
            break
        if len(row) < 2 or any(hit.is_anchored for hit in row[0].hits):
            continue
        amount = sheet.find(row[-1].text, FieldSpec("", FieldType.MONEY))
        has_name = sum(char.isalpha() for char in row[0].text) >= 2
        if len(amount) == 1 and has_name and row[-1].x0 > 0.5 * sheet.width:
            rows.append({_DESCRIPTION: [row[0]], _AMOUNT: [row[-1]]})
    return rows


def _cell(sheet: Sheet, child: FieldSpec, concepts: frozenset[str], row: Mapping[str, list[Spot]]) -> FieldValue:
    spots = next((row[concept] for concept in row if concept in concepts), [])
    if not spots:
        return FieldValue(child.name)
    text = " ".join(spot.text for spot in spots)
    found = sheet.find(text, child)
    if child.type is FieldType.NUMBER and not found:
        return FieldValue(child.name)
    if not found:
        return FieldValue(child.name)
    one = found[0]
    spot = spots[0]
    score = round(_SCORE * min(1.0, spot.score), 3)
    return FieldValue(
        child.name,
        one.value,
        text[one.start : one.end].strip(),
        one.currency,
        spot.box,
        spot.quad,
        score,
        "in a table row",
    )
