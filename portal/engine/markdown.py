"""Markdown of a page from its lines and blocks, so that rendered it shows what the page says and nothing else.

Escapes by the CommonMark 0.31 and GitHub table rules (spec.commonmark.org, github.github.com/gfm), and only
where a mark would otherwise be taken for markup, so that the source stays readable too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from portal.page_text import Block, Line

_INLINE = re.compile(
    r"""
      \\(?=[!-/:-@\[-`{-~]|$)                      # a backslash that would escape, or break the line
    | `                                            # code
    | (?<=\S)\*|\*(?=\S)                           # emphasis: a star that touches something
    | (?<![^\W_])_(?=\S)|(?<=\S)_(?![^\W_])        # emphasis: an underscore not inside a word
    | ~(?=~)|(?<=~)~                               # strikethrough
    | <(?=[A-Za-z/!?])                             # a tag, a comment, an autolink
    | &(?=\#?\w+;)                                 # a character reference
    | \[(?=[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\][(\[]) # a link or an image
    """,
    re.VERBOSE,
)
_LINE_START = re.compile(
    r"""
      (?P<mark>\#{1,6}(?=\s|$)|[-+*](?=\s|$)|>|=+\s*$|~~~)          # heading, bullet, quote, underline, fence
    | \d{1,9}(?P<number>[.)])(?=\s|$)                              # numbered list
    | (?P<reference>\[)(?=[^\]]*\]:)                               # definition of a link: would vanish
    """,
    re.VERBOSE,
)
_RULE = re.compile(
    r"[-|:\s]*-[-|:\s]*$|(?P<mark>[*_])(?:\s*(?P=mark)){2,}\s*$"
)  # a rule, or the line under a table's head


def to_markdown(lines: Sequence[Line], blocks: Sequence[Block]) -> str:
    """Blocks separated by blank lines; tables as GitHub tables whose first row is the header.

    A block that has its engine's own Markdown keeps that.
    """
    return "\n\n".join(part for part in (_block(lines, block) for block in blocks) if part.strip())


def to_table(rows: Sequence[Sequence[str]]) -> str:
    """A GitHub table of cells that are Markdown already; rows of one length, the first is the header."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def escape_line(text: str) -> str:
    """One line of a paragraph: marks count anywhere in it and at its start. Outer white space is trimmed."""
    text = text.strip()
    if _RULE.match(text):
        return re.sub(r"([-_*])", r"\\\1", text)
    start = _LINE_START.match(text)
    if start is None:
        return escape_inline(text)
    at = start.start(start.lastgroup or 0)
    return text[:at] + "\\" + text[at] + escape_inline(text[at + 1 :])


def escape_inline(text: str) -> str:
    """Text inside a line, where only inline marks count."""
    return _INLINE.sub(lambda mark: "\\" + mark.group(), text)


def _block(lines: Sequence[Line], block: Block) -> str:
    if block.markdown is not None:
        return block.markdown
    return _table(lines, block) if block.kind == "table" else _text(lines, block)


def _text(lines: Sequence[Line], block: Block) -> str:
    """Rows as lines; those that end early, so that the break is meant, end in a hard break (two spaces)."""
    rows = [[lines[index] for cell in row for index in cell] for row in block.rows]
    rows = [row for row in rows if any(line.text.strip() for line in row)]
    written = [escape_line(" ".join(line.text.strip() for line in row)) for row in rows]
    breaks = ["\n" if is_wrapped else "  \n" for is_wrapped in _wrapped(rows)]
    return "".join(text + end for text, end in zip(written, breaks, strict=True)).rstrip()


def _wrapped(rows: Sequence[Sequence[Line]]) -> list[bool]:
    """For each row whether its text flows on in the next: prose reaches the right edge, lists and forms do not.

    Without boxes nobody can tell, so each row ends where it ends.
    """
    boxes = [[line.box for line in row if line.box is not None] for row in rows]
    if not all(boxes):
        return [False] * len(rows)
    ends = [max(box[2] for box in row) for row in boxes]
    starts = [min(box[0] for box in row) for row in boxes]
    width = max(ends, default=0) - min(starts, default=0)
    is_prose = len(rows) > 2 and median(end - start for start, end in zip(starts, ends, strict=True)) > 0.8 * width
    return [is_prose and end > max(ends) - 0.15 * width for end in ends]


def _table(lines: Sequence[Line], block: Block) -> str:
    return to_table([[_cell(lines, cell) for cell in row] for row in block.rows])


def _cell(lines: Sequence[Line], cell: Sequence[int]) -> str:
    return escape_inline(" ".join(lines[index].text.strip() for index in cell)).replace("|", "\\|")
