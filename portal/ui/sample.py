"""Draws the sample page: a small till receipt, made here so that nobody needs a scan at hand to try the portal."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FILE_NAME = "sample-receipt.png"
WIDTH_PX = 1000
HEIGHT_PX = 1400

_INK = (38, 38, 42)
_PAPER = (251, 250, 246)
_LEFT = 90
_RIGHT = WIDTH_PX - 90

_HEAD = ("CORNER HOUSE BAKERY", "14 Mill Lane, Ashford", "Tel 01632 960 142")
_ITEMS = (
    ("2  Sourdough loaf", "7.80"),
    ("1  Almond croissant", "2.95"),
    ("3  Cinnamon roll", "8.25"),
    ("1  Flat white, large", "3.60"),
    ("1  Orange juice", "3.20"),
)
_TOTALS = (("Subtotal", "25.80"), ("VAT 5 %", "1.29"), ("TOTAL EUR", "27.09"))
_FOOT = ("Paid by card  **** 4417", "Receipt 20391    12 March 2026  08:41", "Thank you and see you tomorrow!")


def draw(target: Path) -> None:
    """Writes the sample as an RGB PNG of 1000 x 1400 pixels."""
    image = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), _PAPER)
    pen = ImageDraw.Draw(image)
    y = _centred(pen, 90, _HEAD[:1], size=52)
    y = _centred(pen, y, _HEAD[1:], size=30)
    y = _rule(pen, y + 20)
    y = _amounts(pen, y, _ITEMS, size=34)
    y = _rule(pen, y + 10)
    y = _amounts(pen, y, _TOTALS, size=36)
    y = _rule(pen, y + 10)
    _centred(pen, y + 10, _FOOT, size=30)
    image.save(target, format="PNG")


def _centred(pen: ImageDraw.ImageDraw, y: int, lines: tuple[str, ...], *, size: int) -> int:
    font = ImageFont.load_default(size=size)
    for line in lines:
        pen.text((WIDTH_PX / 2, y), line, font=font, fill=_INK, anchor="ma")
        y += round(size * 1.7)
    return y


def _amounts(pen: ImageDraw.ImageDraw, y: int, rows: tuple[tuple[str, str], ...], *, size: int) -> int:
    font = ImageFont.load_default(size=size)
    for name, amount in rows:
        pen.text((_LEFT, y), name, font=font, fill=_INK)
        pen.text((_RIGHT, y), amount, font=font, fill=_INK, anchor="ra")
        y += round(size * 1.8)
    return y


def _rule(pen: ImageDraw.ImageDraw, y: int) -> int:
    pen.line((_LEFT, y, _RIGHT, y), fill=_INK, width=2)
    return y + 36
