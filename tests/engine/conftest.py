"""Pages drawn by Pillow, and one embedded engine for the tests that read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from portal.domain import PageImage, TaskPrompt
from portal.engine.embedded import EmbeddedEngine
from portal.page_text import PageText

Reader = Callable[[PageImage], PageText]


@pytest.fixture(scope="session")
def letter(tmp_path_factory: pytest.TempPathFactory) -> PageImage:
    """An upright page of five lines, 700 × 900 pixels."""
    image = Image.new("RGB", (700, 900), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=30)
    for row, text in enumerate(
        ("Dear customer,", "we received your order", "of the first of July.", "Total", "Goodbye")
    ):
        draw.text((60, 80 + 70 * row), text, fill="black", font=font)
    draw.text((450, 80 + 70 * 3), "419.50 EUR", fill="black", font=font)
    return save(image, tmp_path_factory.mktemp("letter") / "letter.png")


@pytest.fixture(scope="package")
def read() -> Iterator[Reader]:
    """Reads a page with one shared worker."""
    engine = EmbeddedEngine(1, page_seconds=100)
    yield lambda image: asyncio.run(engine.recognise(image, TaskPrompt()))
    asyncio.run(engine.close())


def save(image: Image.Image, path: Path) -> PageImage:
    """Writes a page image as the sandbox does."""
    image.convert("RGB").save(path)
    return PageImage(path, *image.size)
