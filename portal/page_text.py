"""Frozen values for what was found on a page: its text, the values of its fields, its translation.

What was asked for is in portal/domain.py; as there, no database and no I/O. Boxes are `(x0, y0, x1, y1)` in pixels of
the upright page image, origin top left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

Box = tuple[int, int, int, int]
Quad = tuple[float, float, float, float, float, float, float, float]


class FieldState(StrEnum):
    """Whether a value is as it was read, checked by a person, or breaks a rule."""

    READ = "read"
    CHECKED = "checked"
    RULE_FAILED = "rule_failed"


@dataclass(frozen=True, slots=True)
class FieldOriginal:
    """What an engine had read before a person corrected it."""

    value: str | None
    raw: str | None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class FieldValue:
    """What was found for one field; `value` is None where nothing was found, never a guess.

    `value` is normalised: dates ISO 8601, amounts and numbers decimal text, IBANs without spaces. `raw` is what the
    page says. `box` and `quad` are where, `page` the page's position in its job (None: the page it belongs to).
    `score` 0–1 is how sure the find is, `how` the way it was found, in words. A corrected value keeps its `original`;
    `checked_by` and `checked_at` say who looked at it and when.
    A `many` field has several values of its name; a `rows` field has `rows` and no value.
    """

    name: str
    value: str | None = None
    raw: str | None = None
    currency: str | None = None
    box: Box | None = None
    quad: Quad | None = None
    score: float | None = None
    how: str | None = None
    page: int | None = None
    state: FieldState = FieldState.READ
    messages: tuple[str, ...] = ()
    original: FieldOriginal | None = None
    checked_by: str | None = None
    checked_at: datetime | None = None
    rows: tuple[tuple[FieldValue, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. `box` and `score` (the engine's confidence, 0–1) are None where the engine gives none."""

    text: str
    box: Box | None
    score: float | None
    quad: Quad | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A run of rows in reading order: rows of cells, each cell the indices of its lines in PageText.lines.

    A text block has one cell in each row (its fragments side by side); a table has the same number of cells in
    each row, empty ones included. `markdown` is what an engine that writes Markdown itself wrote for the block, None
    where it is derived from the lines.
    """

    kind: Literal["text", "table"]
    rows: tuple[tuple[tuple[int, ...], ...], ...]
    markdown: str | None = None


@dataclass(frozen=True, slots=True)
class Translation:
    """The page in another language: a code of portal.languages, and Markdown.

    `untranslated` counts its parts that stayed in their own language, since what came back for them was broken.
    """

    language: str
    markdown: str
    untranslated: int = 0


@dataclass(frozen=True, slots=True)
class PageText:
    """What an engine read on one page.

    `lines` are in reading order. `width_px`/`height_px` are of the upright page; `rotation_degrees` is the
    clockwise turn (0, 90, 180, 270) that made the given image upright; `skew_degrees` the small remaining
    tilt. `confidence` is the mean line score weighted by text length, None where the engine gives none.
    `truncated` names why the text was cut ("repetition", "length"), None when whole. `check_below` is the score
    under which the engine's profile says that a person should compare a line with the page, None without scores.
    `fields` are the values found for the task fields, None for other tasks.
    `figures` are the boxes of pictures on the page, where the engine finds them. `translation` is there when asked for.
    """

    width_px: int
    height_px: int
    lines: tuple[Line, ...]
    blocks: tuple[Block, ...]
    markdown: str
    confidence: float | None = None
    rotation_degrees: int = 0
    skew_degrees: float = 0.0
    truncated: str | None = None
    check_below: float | None = None
    fields: tuple[FieldValue, ...] | None = None
    figures: tuple[Box, ...] = ()
    translation: Translation | None = None

    @property
    def lines_to_check(self) -> int | None:
        """How many lines a person should compare with the page; None where the engine gives no scores."""
        scores = [line.score for line in self.lines if line.score is not None]
        if self.check_below is None or not scores:
            return None
        return sum(score < self.check_below for score in scores)

    @property
    def is_blank(self) -> bool:
        """True when no text was found; blank pages are not charged."""
        return not self.markdown.strip()

    @property
    def text(self) -> str:
        """Plain text in reading order: the cells of a table row separated by tabs, blocks by a blank line."""
        return "\n\n".join(self._block_text(block) for block in self.blocks) if self.blocks else self.markdown

    def _block_text(self, block: Block) -> str:
        rows = [[" ".join(self.lines[i].text for i in cell) for cell in row] for row in block.rows]
        return "\n".join("\t".join(row) for row in rows)
