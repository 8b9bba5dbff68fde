"""PDF files: how many pages, how large, and each as an image. Runs in the sandbox's child only.

Pages are drawn at 200 dpi with their annotations and form fields, smaller where that would be too many pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from portal.documents import refusals
from portal.domain import PageSize

POINTS_PER_INCH = 72
DPI = 200
LONGEST_SIDE_PX = 10_000

_A4_POINTS = (595.0, 842.0)
_NEEDS_PASSWORD = {pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY}


@contextmanager
def opened(path: Path) -> Iterator[pypdfium2.PdfDocument]:
    """The document, which an owner's password alone does not lock. Raises DocumentRefused (file_encrypted)."""
    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise (refusals.encrypted() if error.err_code in _NEEDS_PASSWORD else refusals.corrupt()) from None
    with document:
        with suppress(pypdfium2.PdfiumError):  # a broken form is no reason to refuse the pages
            document.init_forms()
        yield document


def page_sizes(document: pypdfium2.PdfDocument, *, max_pages: int, max_pixels: int) -> tuple[PageSize, ...]:
    """Sizes in pixels that the pages will be drawn at. Raises DocumentRefused (too_many_pages, file_corrupt).

    A broken page counts as an A4 one and fails alone when it is drawn. Where most are broken the document is
    refused: its page count is a lie or the rest of the file is gone.
    """
    count = len(document)
    if count > max_pages:
        raise refusals.too_many_pages(count, max_pages)
    points = [_points(document, index) for index in range(count)]
    if 2 * points.count(None) >= count:
        raise refusals.corrupt()
    return tuple(_size(*(size or _A4_POINTS), max_pixels) for size in points)


def page(document: pypdfium2.PdfDocument, number: int, *, max_pixels: int) -> tuple[Image.Image, int]:
    """Page `number` (from 1) as the document turns it, RGB on white, and its resolution in dpi."""
    points = _points(document, number - 1) if 1 <= number <= len(document) else None
    if points is None:
        raise refusals.corrupt()
    scale = _scale(*points, max_pixels)
    bitmap = document[number - 1].render(scale=scale, rev_byteorder=True)
    return bitmap.to_pil().convert("RGB"), max(1, round(scale * POINTS_PER_INCH))


def _points(document: pypdfium2.PdfDocument, index: int) -> tuple[float, float] | None:
    try:
        width, height = document.get_page_size(index)
    except pypdfium2.PdfiumError:
        return None
    return (width, height) if 0 < width < math.inf and 0 < height < math.inf else None


def _scale(width: float, height: float, max_pixels: int) -> float:
    """Pixels for each point: 200 dpi, less where the page rounded up to whole pixels would be too large."""
    half = (width + height) / (2 * width * height)
    by_pixels = math.sqrt(half * half + (max_pixels - 1) / (width * height)) - half
    by_side = (LONGEST_SIDE_PX - 0.5) / max(width, height)
    return min(DPI / POINTS_PER_INCH, by_pixels, by_side)


def _size(width: float, height: float, max_pixels: int) -> PageSize:
    scale = _scale(width, height, max_pixels)
    return PageSize(math.ceil(width * scale), math.ceil(height * scale))
