"""Which file formats are taken, and how each is known by its first bytes; names and MIME claims count for nothing.

Each media type opens with exactly one Pillow format, so a file can never reach another of its decoders
(with all of them enabled, an EPS would run a PostScript interpreter).
"""

from __future__ import annotations

PDF = "application/pdf"
TIFF = "image/tiff"
PNG = "image/png"
WEBP = "image/webp"

PILLOW_FORMATS = {
    PNG: "PNG",
    "image/jpeg": "JPEG",
    TIFF: "TIFF",
    WEBP: "WEBP",
    "image/bmp": "BMP",
    "image/gif": "GIF",
    "image/avif": "AVIF",
    "image/heic": "HEIF",
}
TAKEN = "PDF, PNG, JPEG, TIFF, WebP, BMP, GIF, AVIF and HEIC"
HEAD_BYTES = 1024

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\0", TIFF),
    (b"MM\0*", TIFF),
    (b"II+\0", TIFF),
    (b"MM\0+", TIFF),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}


def sniff(head: bytes) -> str | None:
    """Media type of a file from its first HEAD_BYTES bytes; None when it is none that is taken.

    A PDF may start anywhere in that range (PDF 32000-1, implementation note 13; scanners' mail gateways do it).
    """
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[4:8] == b"ftyp":
        return _iso_media_type(head)
    return PDF if b"%PDF-" in head else None


def webp_size(head: bytes) -> tuple[int, int]:
    """Width and height in pixels that a WebP header claims; (0, 0) when it claims none.

    Needed because Pillow's decoder allocates the canvas twice just to open the file.
    Source: RFC 9649, sections 2.5–2.7.
    """
    chunk = head[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if chunk == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 ":
        width, height = int.from_bytes(head[26:28], "little"), int.from_bytes(head[28:30], "little")
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _iso_media_type(head: bytes) -> str | None:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    major, brands = head[8:12], {head[i : i + 4] for i in range(8, end, 4) if i != 12}
    if major in _AVIF_BRANDS or (major in {b"mif1", b"msf1"} and brands & _AVIF_BRANDS):
        return "image/avif"
    return "image/heic" if major in _HEIC_BRANDS else None
