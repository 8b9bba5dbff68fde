"""What the sandbox's children do: the only functions that decode images. Never called in the portal's process.

Limits are checked on headers before any pixel is decoded. The decoders are imported late, in the child.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from portal.documents import refusals
from portal.documents.formats import HEAD_BYTES, PDF, sniff
from portal.domain import Inspection, PageSize
from portal.errors import PortalError

if TYPE_CHECKING:
    from PIL import Image

VIEW_LONGEST_SIDE_PX = 16_000
VIEW_QUALITY = 85
_STDERR = 2


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """What was written: size in pixels, and the resolution where the document says one (PDF)."""

    width_px: int
    height_px: int
    dpi: int | None


def inspect(path: Path, max_pages: int, max_pixels: int) -> Inspection:
    """Format by content, and the size of each page from headers. Raises DocumentRefused, OSError."""
    with path.open("rb") as stream:
        media_type = sniff(stream.read(HEAD_BYTES))
    if media_type is None:
        raise refusals.type_unknown()
    with _decoder_errors():
        sizes = _page_sizes(path, media_type, max_pages, max_pixels)
        if not all(size.width_px and size.height_px for size in sizes):
            raise refusals.corrupt()
    return Inspection(media_type, sizes)


def render(path: Path, media_type: str, number: int, max_pixels: int, target: Path) -> RenderedPage:
    """Writes page `number` (from 1) as 8-bit RGB PNG into `target`, which exists and is empty.

    Raises DocumentRefused for the page, OSError where a file cannot be read or written.
    """
    path.open("rb").close()
    with _decoder_errors():
        image, dpi = _page(path, media_type, number, max_pixels)
    with target.open("r+b") as stream:
        image.save(stream, "PNG", compress_level=1)
    return RenderedPage(image.width, image.height, dpi)


def write_view(image: Path, rotation_degrees: int, target: Path) -> None:
    """Writes our own PNG as JPEG into `target`, turned clockwise by 0, 90, 180 or 270 degrees. Raises OSError."""
    from PIL import Image, PngImagePlugin

    turns = {
        90: Image.Transpose.ROTATE_270,
        180: Image.Transpose.ROTATE_180,
        270: Image.Transpose.ROTATE_90,
    }
    turn = turns[rotation_degrees] if rotation_degrees else None
    # Not Image.open: our own PNG may be larger than what Pillow takes for a bomb.
    with PngImagePlugin.PngImageFile(image) as page:
        page.thumbnail((VIEW_LONGEST_SIDE_PX, VIEW_LONGEST_SIDE_PX))
        view = page if turn is None else page.transpose(turn)
        view.save(target, "JPEG", quality=VIEW_QUALITY)


def _page_sizes(path: Path, media_type: str, max_pages: int, max_pixels: int) -> tuple[PageSize, ...]:
    if media_type == PDF:
        from portal.documents import pdf_pages

        with pdf_pages.opened(path) as document:
            return pdf_pages.page_sizes(document, max_pages=max_pages, max_pixels=max_pixels)
    from portal.documents import images

    with path.open("rb") as stream, images.opened(stream, media_type, max_pixels) as image:
        return images.page_sizes(image, media_type, max_pages=max_pages, max_pixels=max_pixels)


def _page(path: Path, media_type: str, number: int, max_pixels: int) -> tuple[Image.Image, int | None]:
    if media_type == PDF:
        from portal.documents import pdf_pages

        with pdf_pages.opened(path) as document:
            return pdf_pages.page(document, number, max_pixels=max_pixels)
    from portal.documents import images

    with path.open("rb") as stream, images.opened(stream, media_type, max_pixels) as image:
        return images.page(image, media_type, number, max_pixels=max_pixels), None


@contextmanager
def _decoder_errors() -> Iterator[None]:
    """Translates the decoders' errors: on hostile bytes they raise nearly every type there is."""
    _silence()
    try:
        yield
    except (PortalError, MemoryError):
        raise
    # No list of types would hold: EXIF alone gives eight (see images.py), and each release of a decoder adds some.
    # The price: a bug of ours in here reads as file_corrupt of that one file.
    except Exception:  # noqa: BLE001 - the translator of the decoders' errors
        raise refusals.corrupt() from None


@cache
def _silence() -> None:
    """Decoders warn, log and print (libtiff a line for each broken row) in words taken from the file."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    os.close(nowhere)
