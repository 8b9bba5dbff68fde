"""Small files that lie, burn or overflow, and the plain ones beside them, made by Pillow, reportlab or by hand."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageDraw
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas


def corner_page(mode: str = "RGB", size: tuple[int, int] = (300, 200)) -> Image.Image:
    """White with a 80 × 40 px red block in the top left corner: shows colour and direction."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle((0, 0, 79, 39), fill=(255, 0, 0))
    return image.convert(mode)


def saved(image: Image.Image, format_name: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format_name, **options)
    return stream.getvalue()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, rows: bytes, *, depth: int = 1, colour: int = 0) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(rows, 9)) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def png_of_176_megapixels() -> bytes:
    """Every pixel is there, in some 20 kB."""
    width, height = 13_000, 13_500
    return png(width, height, bytes((width // 8 + 1) * height))


def webp_claiming(width: int, height: int) -> bytes:
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes([0x10, 0, 0, 0]) + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


def tiff_chain(frames: int, *, next_of_last: int = 0, size: tuple[int, int] = (1, 1)) -> bytes:
    """`frames` grey frames of one strip each, chained; `next_of_last` is where the last one points."""
    width, height = size
    ifd_size = 2 + 8 * 12 + 4
    strip = 8 + frames * ifd_size
    parts = [b"II*\0", struct.pack("<I", 8)]
    for frame in range(frames):
        tags = ((256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, strip), (278, height))
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in (*tags, (279, width * height)))
        following = 8 + (frame + 1) * ifd_size if frame < frames - 1 else next_of_last
        parts.append(struct.pack("<H", 8) + entries + struct.pack("<I", following))
    return b"".join(parts) + bytes(width * height)


def pdf(*objects: bytes) -> bytes:
    """A PDF of these objects, numbered from 1; the first is the catalogue."""
    out, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    out += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(out)


def pdf_stream(entries: bytes, content: bytes) -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(content), content)


def pdf_page(size: tuple[float, float], extra: bytes = b"", *objects: bytes) -> bytes:
    """One page of `size` points; `extra` goes into its dictionary, `objects` are numbered from 4."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %g %g]%s>>" % (*size, extra)
    catalogue, tree = b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return pdf(catalogue, tree, page, *objects)


def pdf_of_nested_forms(depth: int = 12, fan_out: int = 12) -> bytes:
    """Each form draws the next one twelve times: 12 to the 12th power fills from some 3 kB."""
    forms = []
    for level in range(depth):
        resources = b"/Resources<</XObject<</F %d 0 R>>>>" % (level + 6)
        forms.append(pdf_stream(b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]" + resources, b"/F Do " * fan_out))
    leaf = pdf_stream(b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]", b"0 0 600 800 re f")
    extra = b"/Contents 4 0 R/Resources<</XObject<</F 5 0 R>>>>"
    return pdf_page((600, 800), extra, pdf_stream(b"", b"/F Do"), *forms, leaf)


def pdf_of_tiny_tiles() -> bytes:
    """A page filled with a pattern of 10^13 tiles: burns time, not memory."""
    kind = b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/Resources<<>>"
    tile = pdf_stream(kind + b"/BBox[0 0 1 1]/XStep 0.0001/YStep 0.0001", b"0 0 1 1 re f")
    extra = b"/Contents 4 0 R/Resources<</Pattern<</P 5 0 R>>>>"
    return pdf_page((600, 800), extra, pdf_stream(b"", b"/Pattern cs /P scn 0 0 600 800 re f"), tile)


def pdf_of_text(*pages: str, size: tuple[float, float] = (595, 842), encryption: Any = None) -> bytes:
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=size, encrypt=encryption)
    for text in pages:
        canvas.setFont("Helvetica", 40)
        canvas.drawString(60, size[1] - 100, text)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()


def pdf_with_password(user: str, owner: str = "owner") -> bytes:
    return pdf_of_text("secret", encryption=StandardEncryption(user, owner, strength=128))
