"""Text without places as a page of rows and cells, so that the matcher can read what a model wrote. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from portal.page_text import FieldValue, Line, PageText

_ROW_PX, _CELL_PX, _CHAR_PX = 30, 400, 12
_CELLS = re.compile(r"\t+|\s*\|\s*|\s{3,}")
_RULE = re.compile(r"[\s|:-]*")
_MARKUP = re.compile(r"<[^<>]{1,80}>|\*\*|__|^#{1,6}\s+", re.MULTILINE)
_CELL_END = re.compile(r"</t[dh]>\s*<t[dh][^<>]{0,80}>", re.IGNORECASE)
_ROW_END = re.compile(r"</tr>|<br\s*/?>", re.IGNORECASE)


def laid_out(page: PageText) -> PageText:
    """The page with a line for each cell of each row of its Markdown, cells side by side."""
    text = _MARKUP.sub("", _ROW_END.sub("\n", _CELL_END.sub("\t", page.markdown)))
    lines = []
    for at, row in enumerate(row for row in text.splitlines() if not _RULE.fullmatch(row)):
        cells = [cell for cell in _CELLS.split(row.strip().strip("|")) if cell.strip()]
        for column, cell in enumerate(cells):
            x0, y0 = column * _CELL_PX, at * _ROW_PX
            lines.append(Line(cell.strip(), (x0, y0, x0 + min(_CHAR_PX * len(cell), _CELL_PX - 20), y0 + 24), None))
    return replace(page, width_px=4 * _CELL_PX, height_px=max(1, _ROW_PX * len(lines)), lines=tuple(lines), blocks=())


def without_places(value: FieldValue) -> FieldValue:
    """The value without boxes, those of its rows too."""
    rows = tuple(tuple(without_places(cell) for cell in row) for row in value.rows)
    return replace(value, box=None, quad=None, rows=rows)
