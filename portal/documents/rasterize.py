"""Document → page images: the PNG that engines read, and from it the JPEG that people are shown."""

from __future__ import annotations

from pathlib import Path

from portal.documents import refusals
from portal.documents.sandbox import Sandbox
from portal.domain import PageImage
from portal.errors import DocumentRefused


def rasterize(sandbox: Sandbox, source: Path, media_type: str, number: int, target: Path) -> PageImage:
    """Page `number` (from 1) of the source as an upright 8-bit RGB PNG at `target`.

    The target's folder must exist: a document deleted meanwhile stays deleted. Raises DocumentRefused naming the
    page (file_corrupt, file_unreadable, file_encrypted, too_many_pixels), Unavailable.
    """
    try:
        written = sandbox.render(source, media_type, number, target)
    except DocumentRefused as refusal:
        raise refusals.about(f"Page {number}", refusal) from refusal
    return PageImage(target, written.width_px, written.height_px, written.dpi)


def write_view(sandbox: Sandbox, image: PageImage, rotation_degrees: int, target: Path) -> None:
    """Writes the page as JPEG, turned clockwise by 0, 90, 180 or 270 degrees.

    It keeps its size, because boxes are in page pixels, up to 16,000 pixels a side: past that it is shrunk, and a
    viewer that scales the boxes with the page (an SVG viewBox) shows both right. Raises Unavailable.
    """
    sandbox.write_view(image.path, rotation_degrees, target)
