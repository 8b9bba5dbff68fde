"""A page of generated Markdown as lines and blocks: paragraphs, tables (HTML ones too), formulas and code untouched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from portal.engine.answers.html_tables import table_rows
from portal.engine.answers.inline import harmless_formula, plain, without_html
from portal.engine.answers.raw_lines import RawLine, mean_score
from portal.engine.markdown import to_table
from portal.page_text import Block, Line

_TABLE = re.compile(r"<table\b", re.IGNORECASE)
_TABLE_END = re.compile(r"</table\s*>", re.IGNORECASE)
_DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_CELL_EDGE = re.compile(r"(?<!\\)\|")
_LONGEST_LITERAL = 400
_FENCE_ENDS = {"```": "```", "$$": "$$", "\\[": "\\]"}


@dataclass
class WrittenPage:
    """Lines and blocks as they are found; a line belongs to exactly one block."""

    lines: list[Line] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def add_text(self, rows: Sequence[RawLine]) -> None:
        """A paragraph, a heading or a list: a line for each row, without the HTML in it."""
        cleaned = [RawLine(part, row.score) for row in rows for part in without_html(row.text).split("\n")]
        for paragraph in _paragraphs(cleaned):
            self._add(paragraph, "\n".join(row.text.rstrip() for row in paragraph))

    def add_literal(self, rows: Sequence[RawLine]) -> None:
        """A formula or code block, untouched."""
        whole = "\n".join(row.text for row in rows)
        self._add([row for row in rows if row.text.strip()], harmless_formula(whole.strip()))

    def add_table(self, cells: Sequence[Sequence[str]], score: float | None) -> None:
        """A table of cells in Markdown; rows are of one length."""
        rows = [[" ".join(without_html(cell).split()) for cell in row] for row in cells]
        placed = tuple(tuple(self._cell(cell, score) for cell in row) for row in rows)
        escaped = [[_CELL_EDGE.sub(r"\|", cell) for cell in row] for row in rows]
        if any(cell for row in placed for cell in row):
            self.blocks.append(Block("table", placed, to_table(escaped)))

    def _cell(self, text: str, score: float | None) -> tuple[int, ...]:
        return (self._line(plain(text), score),) if text else ()

    def _add(self, rows: Sequence[RawLine], markdown: str) -> None:
        shown = [(plain(row.text), row.score) for row in rows]
        placed = tuple(((self._line(text, score),),) for text, score in shown if text)
        if placed:
            self.blocks.append(Block("text", placed, markdown.strip("\n")))

    def _line(self, text: str, score: float | None) -> int:
        self.lines.append(Line(text, None, score))
        return len(self.lines) - 1


def written_page(rows: Sequence[RawLine]) -> WrittenPage:
    """The page that the rows of an answer describe, in their order."""
    page = WrittenPage()
    at = 0
    while at < len(rows):
        at = _take(page, rows, at)
    return page


def table_cells(markdown: str) -> list[list[str]]:
    """The cells of a GitHub table by rows, its head the first, rows as long as they are; empty for anything else."""
    rows = [RawLine(line) for line in markdown.strip().split("\n")]
    if not _is_pipe_table(rows, 0) or any("|" not in row.text for row in rows):
        return []
    return [_cells(row.text) for row in (rows[0], *rows[2:])]


def _take(page: WrittenPage, rows: Sequence[RawLine], at: int) -> int:
    """Takes what begins at row `at` and gives the row after it."""
    text = rows[at].text
    if _TABLE.search(text):
        return _take_html_table(page, rows, at)
    end = _literal_end(rows, at)
    if end is not None:
        page.add_literal(rows[at:end])
        return end
    if _is_pipe_table(rows, at):
        return _take_pipe_table(page, rows, at)
    end = at + 1
    while end < len(rows) and rows[end].text.strip() and not _begins_something(rows, end):
        end += 1
    page.add_text(rows[at:end])
    return end


def _begins_something(rows: Sequence[RawLine], at: int) -> bool:
    return bool(_TABLE.search(rows[at].text)) or _literal_end(rows, at) is not None or _is_pipe_table(rows, at)


def _take_html_table(page: WrittenPage, rows: Sequence[RawLine], at: int) -> int:
    end = at
    while end < len(rows) - 1 and not _TABLE_END.search(rows[end].text):
        end += 1
    whole = "\n".join(row.text for row in rows[at : end + 1])
    score = mean_score(rows[at : end + 1])
    begin = _TABLE.search(whole)
    before = whole[: begin.start()] if begin else whole
    last = [found.end() for found in _TABLE_END.finditer(whole)]
    after = whole[last[-1] :] if last else ""
    page.add_text([RawLine(before.strip(), score)])
    for table in _TABLE_END.split(whole[len(before) : len(whole) - len(after)]):
        page.add_table(table_rows(table), score)
    page.add_text([RawLine(after.strip(), score)])
    return end + 1


def _literal_end(rows: Sequence[RawLine], at: int) -> int | None:
    """The row after the formula or code block that begins at row `at`; None where none begins, or it has no end."""
    text = rows[at].text.lstrip()
    opening = next((mark for mark in _FENCE_ENDS if text.startswith(mark)), None)
    if opening is None:
        return None
    closing = _FENCE_ENDS[opening]
    if closing in text[len(opening) :]:
        return at + 1
    last = min(len(rows), at + _LONGEST_LITERAL)
    return next((number + 1 for number in range(at + 1, last) if closing in rows[number].text), None)


def _is_pipe_table(rows: Sequence[RawLine], at: int) -> bool:
    has_next = at + 1 < len(rows) and "|" in rows[at].text
    return has_next and "|" in rows[at + 1].text and bool(_DELIMITER.match(rows[at + 1].text))


def _take_pipe_table(page: WrittenPage, rows: Sequence[RawLine], at: int) -> int:
    end = at + 2
    while end < len(rows) and "|" in rows[end].text:
        end += 1
    cells = [_cells(row.text) for row in (rows[at], *rows[at + 2 : end])]
    width = max(len(row) for row in cells)
    page.add_table([row + [""] * (width - len(row)) for row in cells], mean_score(rows[at:end]))
    return end


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner.removesuffix("|") if not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _CELL_EDGE.split(inner)]


def _paragraphs(rows: Sequence[RawLine]) -> Iterator[list[RawLine]]:
    paragraph: list[RawLine] = []
    for row in rows:
        if row.text.strip():
            paragraph.append(row)
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph
