"""Boxes in answers: text with coordinates (spotting) and pictures on the page, as boxes in page pixels.

Coordinates count 0–1000 over width and height (cards of LightOnOCR-2-1B-bbox and HunyuanOCR). Values beyond are
drawn in, swapped corners put right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from portal.domain import PageImage
from portal.engine.answers.raw_lines import RawLine, unfenced
from portal.page_text import Box, Line

_SCALE = 1000
_PAIR = r"\(\s*(\d{1,5})\s*,\s*(\d{1,5})\s*\)"
_PLACE = re.compile(rf"{_PAIR}\s*,\s*{_PAIR}(?:\s*,\s*{_PAIR})*")
_FIGURE = re.compile(
    r"!\[[^\]\n]{0,200}\]\([^)\n]{0,200}\)(?:[ \t]*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5}))?"
)
_ENTRY = re.compile(
    r"""\{\s*"box"\s*:\s*\[\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*\]\s*,\s*"""
    r""""text"\s*:\s*("(?:[^"\\]|\\.)*")\s*\}""",
    re.DOTALL,
)


def placed_lines(text: str, image: PageImage, raw: Sequence[RawLine] = ()) -> list[Line]:
    """Lines of `text(x1,y1),(x2,y2)`; text without a place (an answer cut short) has no box.

    Text may hold brackets and span lines, as the authors' own parser takes it.
    """
    lines, end = [], 0
    for found in _PLACE.finditer(text):
        corners = [int(value) for value in found.groups()[:4]]
        lines.append(_line(text[end : found.start()], _box(corners, image), _score_at(text, found.start(), raw)))
        end = found.end()
    rest = [_line(row, None, None) for row in text[end:].splitlines()]
    return [line for line in lines + rest if line.text]


def listed_lines(text: str, image: PageImage, raw: Sequence[RawLine] = ()) -> list[Line]:
    """Lines of a JSON list of `{"box": […], "text": …}`, as many as are whole: the list may be cut short."""
    lines = []
    for found in _ENTRY.finditer(unfenced(text)):
        *corners, quoted = found.groups()
        words = json.loads(quoted, strict=False)
        lines.append(_line(words, _box([int(value) for value in corners], image), _score_at(text, found.start(), raw)))
    return [line for line in lines if line.text]


def without_figures(text: str, image: PageImage) -> tuple[str, tuple[Box, ...]]:
    """The text without its `![image](image_N.png) x1,y1,x2,y2`, and the boxes of those that have one."""
    found = [match.groups() for match in _FIGURE.finditer(text)]
    boxes = tuple(_box([int(value) for value in corners], image) for corners in found if None not in corners)
    return _FIGURE.sub("", text), boxes


def _line(text: str, box: Box | None, score: float | None) -> Line:
    return Line(" ".join(text.split()), box, score)


def _box(corners: Sequence[int], image: PageImage) -> Box:
    xs = sorted(_pixel(value, image.width_px) for value in corners[0::2])
    ys = sorted(_pixel(value, image.height_px) for value in corners[1::2])
    return xs[0], ys[0], xs[1], ys[1]


def _pixel(value: int, size: int) -> int:
    return round(min(value, _SCALE) * size / _SCALE)


def _score_at(text: str, place: int, raw: Sequence[RawLine]) -> float | None:
    row = text.count("\n", 0, place)
    return raw[row].score if row < len(raw) else None
