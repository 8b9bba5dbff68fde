"""CSV on its way out: streamed line by line, and nothing in it that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

Cell = str | int | float | None
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_BATCH = 200


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[bytes]:
    """UTF-8 with a byte order mark (or Excel reads another encoding), commas, CRLF as RFC 4180 has it."""
    written = io.StringIO()
    written.write("\ufeff")
    table = csv.writer(written)
    table.writerow(header)
    for number, row in enumerate(rows, start=1):
        table.writerow([_safe(cell) for cell in row])
        if number % _BATCH == 0:
            yield _taken(written)
    yield _taken(written)


def _taken(written: io.StringIO) -> bytes:
    text = written.getvalue()
    written.seek(0)
    written.truncate()
    return text.encode("utf-8", "replace")


def _safe(cell: Cell) -> Cell:
    """A text that a spreadsheet would take for a formula gets an apostrophe; numbers stay numbers."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
