"""What an image says of itself: its kind, its size in pixels and that it is whole, without decoding a pixel.

A checkpoint's server decodes it afterwards; one that kills a request there kills the same request each time, so what
can be seen from outside is refused here. Formats: PNG (W3C, 5.2 and 11.2.1), JPEG (ITU T.81, B.1.1.3 and B.2.2), WebP
(RFC 9649, 2.4).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final, NoReturn

from portal.documents.formats import HEAD_BYTES, PNG, WEBP, sniff, webp_size
from portal.door.spool import SpooledImage
from portal.errors import DocumentRefused

JPEG: Final = "image/jpeg"
_TAIL_BYTES = 1024  # some writers leave a few bytes behind the end
_PNG_END = b"IEND\xaeB`\x82"
_JPEG_END = b"\xff\xd9"
_MAX_SEGMENTS = 2000
_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """An image that may be passed on; `media_type` is told from its bytes."""

    spooled: SpooledImage
    media_type: str
    width_px: int
    height_px: int


def checked(spooled: SpooledImage, *, max_pixels: int) -> CheckedImage:
    """The image with its kind and size.

    Raises DocumentRefused: file_empty, file_type_unknown, file_corrupt, too_many_pixels.
    """
    if not spooled.byte_size:
        raise DocumentRefused("The image has no bytes.", code="file_empty", remedy="Send the whole file in base64.")
    head = spooled.read(0, HEAD_BYTES)
    media_type = sniff(head)
    if media_type == PNG:
        size = _png_size(head, _tail(spooled))
    elif media_type == JPEG:
        size = _jpeg_size(spooled)
    elif media_type == WEBP:
        size = _webp_size(head, spooled.byte_size)
    else:
        raise DocumentRefused(
            "The image is no PNG, JPEG or WebP.",
            code="file_type_unknown",
            remedy="Send the page as PNG, JPEG or WebP; POST /v1/jobs and /v1/ocr take PDF, TIFF and others.",
        )
    return CheckedImage(spooled, media_type or "", *_within(size, max_pixels))


def _within(size: tuple[int, int], max_pixels: int) -> tuple[int, int]:
    width, height = size
    if not width or not height:
        _refuse("Its header says that it has no pixels.")
    if width * height > max_pixels:
        raise DocumentRefused(
            f"The image has {width} × {height} pixels; this model takes {max_pixels / 1e6:.3g} million.",
            code="too_many_pixels",
            remedy="Send the page at a lower resolution; POST /v1/jobs shrinks pages by itself.",
        )
    return size


def _png_size(head: bytes, tail: bytes) -> tuple[int, int]:
    header = head[12:29]
    if head[8:16] != b"\0\0\0\x0dIHDR" or zlib.crc32(header) != int.from_bytes(head[29:33], "big"):
        _refuse("Its header is damaged.")
    if _PNG_END not in tail:
        _refuse("Its end is missing.")
    return int.from_bytes(header[4:8], "big"), int.from_bytes(header[8:12], "big")


def _jpeg_size(spooled: SpooledImage) -> tuple[int, int]:
    """From the first frame header; segments before it (profiles, thumbnails) are stepped over."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        part = spooled.read(at, 9)
        if len(part) < 4 or part[0] != 0xFF:
            break
        marker = part[1]
        if marker == 0xFF or marker in _NO_LENGTH:
            at += 1 if marker == 0xFF else 2
        elif marker in _FRAME_HEADERS:
            return _frame_size(part, _tail(spooled, since=at))
        else:
            at += 2 + max(2, int.from_bytes(part[2:4], "big"))
    return _refuse("Its header is damaged.")


def _frame_size(header: bytes, tail: bytes) -> tuple[int, int]:
    if _JPEG_END not in tail:
        _refuse("Its end is missing.")
    return int.from_bytes(header[7:9], "big"), int.from_bytes(header[5:7], "big")


def _webp_size(head: bytes, byte_size: int) -> tuple[int, int]:
    if int.from_bytes(head[4:8], "little") + 8 > byte_size:
        _refuse("Its end is missing.")
    return webp_size(head)


def _tail(spooled: SpooledImage, *, since: int = 0) -> bytes:
    """The last bytes; none from before `since`: a thumbnail in a header has an end of its own."""
    return spooled.read(max(since, spooled.byte_size - _TAIL_BYTES), _TAIL_BYTES)


def _refuse(why: str) -> NoReturn:
    raise DocumentRefused(
        f"The image cannot be read. {why}", code="file_corrupt", remedy="Send the whole file, as it was saved."
    )
