"""Fields as a spreadsheet takes them: a line for each document, and one more for each further row of line items.

UTF-8 with a byte order mark, as Excel needs it. What a spreadsheet would run as a formula gets an apostrophe.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from portal.domain import FieldSpec, FieldType
from portal.page_text import FieldValue

# File name, whether a person is to check it, and its values: none when nothing of it was read.
Document = tuple[str, bool, Sequence[FieldValue]]
# A field's name alone; with a name of a column of rows; with None for the currency of an amount.
_Column = tuple[str] | tuple[str, str | None]

BYTE_ORDER_MARK = "\ufeff"
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?\d[\d.,' ]*")


def field_csv(specs: Sequence[FieldSpec], documents: Iterable[Document]) -> Iterator[str]:
    """The lines of one job: a head, then for each document its own."""
    yield BYTE_ORDER_MARK + _line(["file", "to_check", *map(_head, _columns(specs))])
    for document in documents:
        for cells in _rows(specs, document[2]):
            yield _line([document[0], _to_check(document), *cells])


class FieldColumns:
    """One table over jobs that asked for different fields: all columns, in the order they first come."""

    def __init__(self, asked: Iterable[Sequence[FieldSpec]]) -> None:
        self._columns = list(dict.fromkeys(column for specs in asked for column in _columns(specs)))

    def head(self) -> str:
        """The first line."""
        return BYTE_ORDER_MARK + _line(["file", "job", "to_check", *map(_head, self._columns)])

    def lines(self, specs: Sequence[FieldSpec], job_id: str, document: Document) -> Iterator[str]:
        """A document's lines; what its job, which asked for `specs`, did not ask for is empty."""
        for cells in _rows(specs, document[2]):
            by_column = dict(zip(_columns(specs), cells, strict=True))
            given = [by_column.get(column, "") for column in self._columns]
            yield _line([document[0], job_id, _to_check(document), *given])


def _to_check(document: Document) -> str:
    _, is_to_check, values = document
    return "not read" if not values else "yes" if is_to_check else "no"


def guarded(text: str) -> str:
    """The text as a cell that no spreadsheet runs; numbers stay as they are."""
    is_formula = _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
    return f"'{text}" if is_formula else text


def _columns(specs: Sequence[FieldSpec]) -> Iterator[_Column]:
    for spec in specs:
        if spec.type is FieldType.ROWS:
            yield from ((spec.name, child.name) for child in spec.children)
            continue
        yield (spec.name,)
        if spec.type is FieldType.MONEY:
            yield (spec.name, None)


def _head(column: _Column) -> str:
    return ".".join(part or "currency" for part in column)


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
