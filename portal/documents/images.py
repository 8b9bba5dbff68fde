"""Raster files: how many pages, how large, and each as an upright 8-bit RGB image. Runs in the sandbox's child only.

Each frame of a TIFF is a page, except reduced copies and masks. Of an animated GIF, WebP, PNG or AVIF the first
frame is the page, of a HEIC its primary image: what a person sees first when opening the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy
import pillow_heif
from PIL import AvifImagePlugin, Image, ImageFile, PngImagePlugin

from portal.documents import refusals
from portal.documents.formats import HEAD_BYTES, PILLOW_FORMATS, PNG, TIFF, WEBP, webp_size
from portal.domain import PageSize

_ORIENTATION, _SUBFILE, _PHOTOMETRIC = 0x0112, 254, 262
_REDUCED_OR_MASK = 1 | 4
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_LARGEST = 1e30  # keeps the arithmetic on absurd float samples finite

# Drawing programs keep whole documents in a PNG's text; Pillow's 1 MB would refuse them as damaged.
PngImagePlugin.MAX_TEXT_CHUNK = 32 * 2**20
PngImagePlugin.MAX_TEXT_MEMORY = 128 * 2**20
Image.MAX_IMAGE_PIXELS = None  # the portal's own limit is checked instead, on every frame
AvifImagePlugin.DEFAULT_MAX_THREADS = 1
pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)


@contextmanager
def opened(stream: IO[bytes], media_type: str, max_pixels: int) -> Iterator[ImageFile.ImageFile]:
    """The image with its header read and no pixel decoded. Raises DocumentRefused (too_many_pixels)."""
    if media_type == WEBP:
        _check_size(*webp_size(stream.read(HEAD_BYTES)), max_pixels)
        stream.seek(0)
    with Image.open(stream, formats=[PILLOW_FORMATS[media_type]]) as image:
        yield image


def page_sizes(image: ImageFile.ImageFile, media_type: str, *, max_pages: int, max_pixels: int) -> tuple[PageSize, ...]:
    """Sizes of the upright pages in pixels. Raises DocumentRefused (too_many_pages, too_many_pixels)."""
    sizes: list[PageSize] = []
    for _ in _pages(image, media_type):
        if len(sizes) == max_pages:
            raise refusals.too_many_pages(None, max_pages)
        _check_size(*image.size, max_pixels)
        sizes.append(_upright_size(image, media_type))
    return tuple(sizes)


def page(image: ImageFile.ImageFile, media_type: str, number: int, *, max_pixels: int) -> Image.Image:
    """Page `number` (from 1), decoded whole, upright, 8-bit RGB. Raises DocumentRefused."""
    for position, _ in enumerate(_pages(image, media_type), start=1):
        if position == number:
            _check_size(*image.size, max_pixels)
            image.load()
            return _rgb(_turned(image))
    raise refusals.corrupt()


def _pages(image: ImageFile.ImageFile, media_type: str) -> Iterator[None]:
    """Brings the image to each page in turn."""
    if media_type != TIFF:
        yield
        return
    found = False
    for _ in _frames(image):
        if not int(image.tag_v2.get(_SUBFILE, 0)) & _REDUCED_OR_MASK:  # type: ignore[attr-defined]
            found = True
            yield
    if not found:
        image.seek(0)
        yield


def _frames(image: ImageFile.ImageFile) -> Iterator[int]:
    """Seeks through the frames; Pillow ends a chain of frames that bites its own tail."""
    frame = 0
    while True:
        try:
            image.seek(frame)
        except EOFError:
            return
        yield frame
        frame += 1


def _check_size(width_px: int, height_px: int, max_pixels: int) -> None:
    if width_px * height_px > max_pixels:
        raise refusals.too_many_pixels(width_px, height_px, max_pixels)


def _upright_size(image: ImageFile.ImageFile, media_type: str) -> PageSize:
    width, height = image.size
    # Pillow has turned a TIFF's size already, and would decode a PNG in search of EXIF after its pixels.
    is_turned = media_type == TIFF or (media_type == PNG and "exif" not in image.info)
    if not is_turned and _orientation(image) >= 5:
        width, height = height, width
    return PageSize(width, height)


def _orientation(image: Image.Image) -> int:
    try:
        orientation = image.getexif().get(_ORIENTATION, 1)
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, EOFError, OSError, struct.error):
        return 1  # broken EXIF is no reason to refuse good pixels
    return orientation if orientation in _TURNS else 1


def _turned(image: Image.Image) -> Image.Image:
    turn = _TURNS.get(_orientation(image))
    return image if turn is None else image.transpose(turn)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        flat = _from_deep(image)
    elif image.has_transparency_data:
        flat = _on_white(image)
    else:
        flat = image
    rgb = flat.convert("RGB")
    rgb.info.clear()  # colour profiles and EXIF belong to the upload, not to the page image
    return rgb


def _on_white(image: Image.Image) -> Image.Image:
    layered = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
    alpha = layered.getchannel("A")
    if image.format == "BMP" and alpha.getextrema() == (0, 0):  # its writer left the fourth byte zero
        return layered
    page = Image.new("RGB", layered.size, "white")
    page.paste(layered, mask=alpha)
    return page


def _from_deep(image: Image.Image) -> Image.Image:
    """Grey of more than 8 bits, scaled before it is cut to 8: `convert("L")` alone clips to white.

    The range is 0–1 for float samples that keep to it, else the power of two that holds the largest sample, so
    that 10, 12 and 14 bits in 16 are not read as darkness.
    """
    samples = numpy.clip(numpy.nan_to_num(numpy.asarray(image, dtype=numpy.float32)), -_LARGEST, _LARGEST)
    samples -= min(0.0, float(samples.min()))
    high = float(samples.max())
    is_unit = image.mode == "F" and high <= 1
    # 32-bit float rounds 2^31 − 1 up to the next power of two.
    top = 1.0 if is_unit else 2.0 ** max(8, numpy.frexp(high * (1 - 1e-6))[1]) - 1
    grey = Image.fromarray((samples * (255 / top)).round().clip(0, 255).astype(numpy.uint8))
    return grey.point(lambda value: 255 - value) if _is_white_zero(image) else grey


def _is_white_zero(image: Image.Image) -> bool:
    """Pillow turns WhiteIsZero round for 1 to 8 bits only."""
    tags = getattr(image, "tag_v2", None)
    return tags is not None and tags.get(_PHOTOMETRIC) == 0
