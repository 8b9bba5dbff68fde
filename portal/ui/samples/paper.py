"""A sheet of paper and a pen: what the sample pages are written with.

The pen keeps its height `y` on the sheet and moves down by itself. The font is Noto Sans CJK, which has the letters
of all languages that the samples are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

from noto_cjk_sans_jp_regular import FONT_PATH
from PIL import Image, ImageDraw, ImageFont

WIDTH_PX = 1000
HEIGHT_PX = 1400
MARGIN_PX = 90

_INK = (38, 38, 42)
_SOFT = (150, 150, 150)
_SHADE = (232, 230, 222)
_PAPER = (251, 250, 246)

Side = Literal["left", "middle", "right"]

_ANCHORS: dict[Side, str] = {"left": "la", "middle": "ma", "right": "ra"}


class Paper:
    """One page of 1000 x 1400 pixels, written from top to bottom."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), _PAPER)
        self.y = MARGIN_PX
        self._pen = ImageDraw.Draw(self.image)

    def line(
        self, text: str, *, size: int = 28, side: Side = "left", x: int | None = None, is_bold: bool = False
    ) -> None:
        """Writes one line (height of letters in pixels) and moves below it."""
        self.put(text, self._x(side) if x is None else x, size=size, side=side, is_bold=is_bold)
        self.y += round(size * 1.6)

    def lines(self, texts: Sequence[str], *, size: int = 28, side: Side = "left") -> None:
        """Writes several lines alike."""
        for text in texts:
            self.line(text, size=size, side=side)

    def put(self, text: str, x: int, *, size: int = 28, side: Side = "left", is_bold: bool = False) -> None:
        """Writes at x without moving down."""
        # Of a CJK font the line begins above the Latin letters.
        place = (x, self.y - round(size * 0.2))
        self._pen.text(
            place, text, font=_font(size), fill=_INK, anchor=_ANCHORS[side], stroke_width=1 if is_bold else 0
        )

    def pair(self, left: str, right: str, *, size: int = 28, is_bold: bool = False) -> None:
        """Writes a name at the left margin and a value at the right one."""
        self.put(left, MARGIN_PX, size=size, is_bold=is_bold)
        self.put(right, WIDTH_PX - MARGIN_PX, size=size, side="right", is_bold=is_bold)
        self.y += round(size * 1.7)

    def rule(self, *, left: int = MARGIN_PX, right: int = WIDTH_PX - MARGIN_PX) -> None:
        """Draws a thin line across."""
        self._pen.line((left, self.y, right, self.y), fill=_INK, width=2)
        self.y += 26

    def gap(self, height_px: int) -> None:
        """Leaves some paper empty."""
        self.y += height_px

    def field(self, label: str, value: str, *, left: int = MARGIN_PX, right: int = WIDTH_PX - MARGIN_PX) -> None:
        """A form's field: a small label above a box with a value in it; does not move down."""
        self.put(label, left, size=22)
        self._pen.rectangle((left, self.y + 34, right, self.y + 88), outline=_SOFT, width=2)
        top, self.y = self.y, self.y + 48
        self.put(value, left + 16, size=28)
        self.y = top

    def grid(self, rows: Sequence[Sequence[str]], widths_px: Sequence[int], *, size: int = 26) -> None:
        """A ruled table with a shaded head; columns after the first hold numbers and end at their right."""
        height = round(size * 2)
        right = MARGIN_PX + sum(widths_px)
        self._pen.rectangle((MARGIN_PX, self.y, right, self.y + height), fill=_SHADE)
        for number, row in enumerate(rows):
            self._grid_row(row, widths_px, height, size=size, is_bold=number == 0)
        self._pen.line((MARGIN_PX, self.y, right, self.y), fill=_SOFT, width=2)
        self.y += 26

    def _grid_row(self, row: Sequence[str], widths_px: Sequence[int], height: int, *, size: int, is_bold: bool) -> None:
        right = MARGIN_PX + sum(widths_px)
        self._pen.line((MARGIN_PX, self.y, right, self.y), fill=_SOFT, width=2)
        top, self.y = self.y, self.y + round(size * 0.5)
        x = MARGIN_PX
        for column, (text, width) in enumerate(zip(row, widths_px, strict=True)):
            place, side = (x + 14, "left") if column == 0 else (x + width - 14, "right")
            self.put(text, place, size=size, side="left" if side == "left" else "right", is_bold=is_bold)
            x += width
        self.y = top + height

    def _x(self, side: Side) -> int:
        return {"left": MARGIN_PX, "middle": WIDTH_PX // 2, "right": WIDTH_PX - MARGIN_PX}[side]


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FONT_PATH), size)
