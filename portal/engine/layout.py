"""Recognised lines to a PageText: what is noise, reading order, blocks, Markdown and confidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from portal.engine.geometry import skew_degrees
from portal.engine.markdown import to_markdown
from portal.engine.reading_order import regions
from portal.engine.tables import to_blocks
from portal.page_text import Block, Line, PageText

_MIN_SCORE = 0.5
_MIN_SURE_SCORE = 0.8


def page_text(lines: Sequence[Line], *, width_px: int, height_px: int, rotation_degrees: int) -> PageText:
    """The page from its lines in any order, boxes in pixels of the upright page."""
    lines = legible(lines)
    skew = skew_degrees([line.quad for line in lines if line.quad is not None])
    blocks = [block for region in regions(lines, skew) for block in to_blocks(region)]
    ordered, blocks = _in_order(lines, blocks)
    return PageText(
        width_px=width_px,
        height_px=height_px,
        lines=tuple(ordered),
        blocks=tuple(blocks),
        markdown=to_markdown(ordered, blocks),
        confidence=confidence(ordered),
        rotation_degrees=rotation_degrees,
        skew_degrees=skew,
    )


def legible(lines: Sequence[Line]) -> list[Line]:
    """Lines that are text; none when nothing on the page is surely text (specks, stains and noise are not)."""
    kept = [line for line in lines if _is_text(line)]
    return kept if any(_is_sure(line) for line in kept) else []


def confidence(lines: Sequence[Line]) -> float | None:
    """Mean score weighted by length of text, None without scored lines."""
    scored = [(len(line.text), line.score) for line in lines if line.score is not None and line.text]
    total = sum(length for length, _ in scored)
    return round(sum(length * score for length, score in scored) / total, 4) if total else None


def _is_text(line: Line) -> bool:
    score = line.score or 0.0
    has_letters = any(char.isalnum() for char in line.text)
    return bool(line.text.strip()) and score >= (_MIN_SCORE if has_letters else _MIN_SURE_SCORE)


def _is_sure(line: Line) -> bool:
    return (line.score or 0.0) >= _MIN_SURE_SCORE and any(char.isalnum() for char in line.text)


def _in_order(lines: Sequence[Line], blocks: Sequence[Block]) -> tuple[list[Line], list[Block]]:
    """Lines in the order of the blocks, and the blocks with the indices of that order."""
    order = [index for block in blocks for row in block.rows for cell in row for index in cell]
    place = {index: at for at, index in enumerate(order)}
    renumbered = [
        replace(block, rows=tuple(tuple(tuple(place[i] for i in cell) for cell in row) for row in block.rows))
        for block in blocks
    ]
    return [lines[index] for index in order], renumbered
