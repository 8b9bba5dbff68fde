"""HTML tables as models write them, as rows of plain cells: spans laid out, rows of one length, nothing trusted."""

from __future__ import annotations

from html.parser import HTMLParser

MAX_CELLS = 20_000
_MAX_SPAN = 200
_BREAKS = frozenset({"br", "p", "div", "li"})


def table_rows(html: str) -> list[list[str]]:
    """Rows of cells of all tables in the HTML, in order; a spanning cell's text stands in its first place only.

    Unclosed tags, as in an answer that was cut, end where the text ends. Empty for HTML without cells.
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.finish()
    rows = [row for row in _laid_out(reader.rows) if row]
    width = max((len(row) for row in rows), default=0)
    return [row + [""] * (width - len(row)) for row in rows]


class _Reader(HTMLParser):
    """Collects rows of (text, columns, rows) of cells; a table in a cell is part of the cell's text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[tuple[str, int, int]]] = []
        self._cell: list[str] | None = None
        self._spans = (1, 1)
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._depth += 1
        if tag in _BREAKS and self._cell is not None:
            self._cell.append(" ")
        if self._depth > 1:
            return
        if tag == "tr":
            self.finish()
            self.rows.append([])
        elif tag in ("td", "th"):
            self.finish()
            given = dict(attrs)
            self._spans = _span(given.get("colspan")), _span(given.get("rowspan"))
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._depth -= 1
        elif self._depth <= 1 and tag in ("td", "th", "tr"):
            self.finish()

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def finish(self) -> None:
        """Ends the cell that is open."""
        if self._cell is None:
            return
        if not self.rows:
            self.rows.append([])
        self.rows[-1].append((" ".join("".join(self._cell).split()), *self._spans))
        self._cell = None


def _span(value: str | None) -> int:
    text = (value or "").strip()
    return min(max(int(text), 1), _MAX_SPAN) if text.isascii() and text.isdigit() and len(text) < 5 else 1


def _laid_out(rows: list[list[tuple[str, int, int]]]) -> list[list[str]]:
    taken: dict[tuple[int, int], str] = {}
    for number, row in enumerate(rows):
        column = 0
        for text, columns, depth in row:
            while (number, column) in taken:
                column += 1
            for down in range(min(depth, len(rows) - number)):
                for right in range(columns):
                    taken[number + down, column + right] = text if (down, right) == (0, 0) else ""
            column += columns
            if len(taken) > MAX_CELLS:
                return _grid(taken)
    return _grid(taken)


def _grid(taken: dict[tuple[int, int], str]) -> list[list[str]]:
    height = max((row for row, _ in taken), default=-1) + 1
    lines: list[list[str]] = [[] for _ in range(height)]
    for row, column in sorted(taken):
        line = lines[row]
        line.extend([""] * (column - len(line)))
        line.append(taken[row, column])
    return lines
