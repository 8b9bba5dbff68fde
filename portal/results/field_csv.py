"""Fields as a spreadsheet takes them: a line for each document, and one more for each further row of line items.

UTF-8 with a byte order mark, as Excel needs it. What a spreadsheet would run as a formula gets an apostrophe.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from portal.domain import FieldSpec, FieldType, FieldValue

BYTE_ORDER_MARK = "\ufeff"
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d[\d.,' ]*")


def field_csv(specs: Sequence[FieldSpec], documents: Iterable[tuple[str, bool, Sequence[FieldValue]]]) -> Iterator[str]:
    """The lines: a head, then for each (file name, whether it needs a check, values) its own."""
    yield BYTE_ORDER_MARK + _line(["file", "to_check", *_heads(specs)])
    for file_name, is_to_check, values in documents:
        for cells in _rows(specs, values):
            yield _line([file_name, "yes" if is_to_check else "no", *cells])


def guarded(text: str) -> str:
    """The text as a cell that no spreadsheet runs; numbers stay as they are."""
    is_formula = _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
    return f"'{text}" if is_formula else text


def _heads(specs: Sequence[FieldSpec]) -> Iterator[str]:
    for spec in specs:
        if spec.type is FieldType.ROWS:
            yield from (f"{spec.name}.{child.name}" for child in spec.children)
            continue
        yield spec.name
        if spec.type is FieldType.MONEY:
            yield f"{spec.name}.currency"


def _rows(specs: Sequence[FieldSpec], values: Sequence[FieldValue]) -> Iterator[list[str]]:
    """The document's line with its first line items, then a line for each further one, where nothing else stands."""
    by_name: dict[str, list[FieldValue]] = {}
    for value in values:
        by_name.setdefault(value.name, []).append(value)
    most = max((len(value.rows) for value in values), default=0)
    for at in range(max(1, most)):
        yield [cell for spec in specs for cell in _cells(spec, by_name.get(spec.name, []), at)]


def _cells(spec: FieldSpec, values: Sequence[FieldValue], at: int) -> list[str]:
    if spec.type is FieldType.ROWS:
        rows = [row for value in values for row in value.rows]
        row = {cell.name: cell.value or "" for cell in rows[at]} if at < len(rows) else {}
        return [row.get(child.name, "") for child in spec.children]
    given = [value for value in values if value.value is not None] if at == 0 else []
    cells = ["; ".join(value.value or "" for value in given)]
    if spec.type is FieldType.MONEY:
        cells.append("; ".join(value.currency or "" for value in given))
    return cells


def _line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow([guarded(" ".join(cell.split())) for cell in cells])
    return line.getvalue()
