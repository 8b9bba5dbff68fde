"""Pages come out upright, 8-bit, on white, in bounds; a page that cannot is refused whole."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy
import pillow_heif
import pytest
from PIL import Image, ImageFile
from reportlab.pdfgen.canvas import Canvas

from portal.documents.pdf_pages import LONGEST_SIDE_PX
from portal.documents.rasterize import rasterize, write_view
from portal.documents.sandbox import Sandbox
from portal.domain import PageImage
from portal.errors import DocumentRefused, Unavailable
from portal.settings import IntakeSettings
from tests.documents import hostile
from tests.documents.conftest import Admit, Draw

Render = Callable[..., PageImage]
RED, WHITE, BLACK = (255, 0, 0), (255, 255, 255), (0, 0, 0)


def _near(image: Image.Image, point: tuple[int, int], colour: tuple[int, int, int], within: int = 40) -> bool:
    pixel = image.getpixel(point)
    assert isinstance(pixel, tuple)
    return all(abs(a - b) <= within for a, b in zip(pixel, colour, strict=True))


def _is_upright(image: Image.Image) -> bool:
    return image.size == (300, 200) and _near(image, (20, 20), RED) and _near(image, (280, 180), WHITE)


def _stored_turned(orientation: int) -> Image.Image:
    """The corner page as a camera stores it that says `orientation` (EXIF 2.3, tag 274)."""
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    page = hostile.corner_page()
    return page.transpose(turns[orientation]) if orientation in turns else page


def _exif(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def _heic(image: Image.Image, **options: object) -> bytes:
    stream = io.BytesIO()
    pillow_heif.from_pillow(image).save(stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "AVIF"])
def test_page_is_right_when_the_format_is_taken(draw: Draw, format_name: str) -> None:
    assert _is_upright(draw(hostile.saved(hostile.corner_page(), format_name)))


def test_page_is_right_when_it_is_heic(draw: Draw) -> None:
    assert _is_upright(draw(_heic(hostile.corner_page())))


@pytest.mark.parametrize("orientation", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_page_is_upright_when_a_jpeg_says_how_it_lies(draw: Draw, take: Admit, orientation: int) -> None:
    content = hostile.saved(_stored_turned(orientation), "JPEG", exif=_exif(orientation))
    assert take(content).inspection.page_sizes[0].width_px == 300
    assert _is_upright(draw(content))


@pytest.mark.parametrize("format_name", ["PNG", "TIFF", "WEBP", "AVIF"])
@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_page_is_upright_when_other_formats_say_how_it_lies(
    draw: Draw, take: Admit, format_name: str, orientation: int
) -> None:
    content = hostile.saved(_stored_turned(orientation), format_name, exif=_exif(orientation))
    assert take(content).inspection.page_sizes[0].width_px == 300
    assert _is_upright(draw(content))


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_page_is_upright_when_a_heic_says_how_it_lies(draw: Draw, take: Admit, orientation: int) -> None:
    content = _heic(_stored_turned(orientation), exif=_exif(orientation).tobytes())
    assert take(content).inspection.page_sizes[0].width_px == 300
    assert _is_upright(draw(content))


def test_page_is_drawn_when_its_exif_is_junk(draw: Draw) -> None:
    junk = b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\x01\x12\0\x03" + b"\xff" * 40
    assert _is_upright(draw(hostile.saved(hostile.corner_page(), "JPEG", exif=junk)))


def _on_transparent(mode: str) -> Image.Image:
    image = Image.new("RGBA", (300, 200), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 80, 40))
    return image.convert(mode)


@pytest.mark.parametrize(
    "content",
    [
        hostile.saved(_on_transparent("RGBA"), "PNG"),
        hostile.saved(_on_transparent("LA"), "PNG"),
        hostile.saved(_on_transparent("RGBA"), "WEBP", lossless=True),
        hostile.saved(_on_transparent("RGBA"), "TIFF"),
        hostile.saved(_on_transparent("RGBA"), "AVIF"),
        hostile.saved(_on_transparent("RGBA"), "GIF"),
        hostile.saved(_on_transparent("RGBA").quantize(), "PNG"),
        hostile.saved(Image.new("L", (300, 200), 9), "PNG", transparency=9),
        _heic(_on_transparent("RGBA")),
    ],
    ids=["png-rgba", "png-la", "webp", "tiff", "avif", "gif", "png-palette", "png-grey-key", "heic"],
)
def test_background_is_white_when_the_image_is_transparent(draw: Draw, content: bytes) -> None:
    image = draw(content)
    assert _near(image, (250, 150), WHITE, 8)


def test_text_stays_black_when_the_image_is_transparent(draw: Draw) -> None:
    assert _near(draw(hostile.saved(_on_transparent("RGBA"), "PNG")), (20, 20), BLACK)


def test_bmp_shows_its_colours_when_its_alpha_is_all_zero(draw: Draw) -> None:
    image = hostile.corner_page("RGBA")
    image.putalpha(0)
    assert _is_upright(draw(hostile.saved(image, "BMP")))


def _greys(samples: numpy.ndarray, format_name: str = "TIFF") -> bytes:
    return hostile.saved(Image.fromarray(samples), format_name)


@pytest.mark.parametrize(
    "content",
    [
        _greys(numpy.array([[0, 32768, 65535]], numpy.uint16), "PNG"),
        _greys(numpy.array([[0, 32768, 65535]], numpy.uint16)),
        _greys(numpy.array([[0, 2048, 4095]], numpy.uint16)),
        _greys(numpy.array([[0, 2**30, 2**31 - 1]], numpy.int32)),
        _greys(numpy.array([[-128, 0, 127]], numpy.int32)),
        _greys(numpy.array([[0, 0.5, 1]], numpy.float32)),
        _greys(numpy.array([[numpy.nan, 128, 255]], numpy.float32)),
    ],
    ids=["png-16", "tiff-16", "tiff-12-in-16", "tiff-32", "tiff-signed", "tiff-unit-float", "tiff-nan"],
)
def test_greys_are_scaled_when_samples_have_more_than_8_bits(draw: Draw, content: bytes) -> None:
    image = draw(content)
    assert _near(image, (0, 0), BLACK, 1)
    assert _near(image, (1, 0), (128, 128, 128), 2)
    assert _near(image, (2, 0), WHITE, 1)


def test_page_is_drawn_when_float_samples_are_absurd(draw: Draw) -> None:
    image = draw(_greys(numpy.array([[3e38, -3e38, numpy.inf, -numpy.inf, numpy.nan]], numpy.float32)))
    assert (image.mode, image.size) == ("RGB", (5, 1))


def test_white_is_white_when_a_16_bit_tiff_says_white_is_zero(draw: Draw) -> None:
    content = _greys(numpy.array([[0, 65535]], numpy.uint16))
    blackiszero, whiteiszero = (struct.pack("<HHI", 262, 3, 1) + struct.pack("<I", v) for v in (1, 0))
    assert blackiszero in content
    image = draw(content.replace(blackiszero, whiteiszero))
    assert _near(image, (0, 0), WHITE)
    assert _near(image, (1, 0), BLACK)


def test_page_is_right_when_it_has_one_bit(draw: Draw) -> None:
    for format_name, options in (("PNG", {}), ("TIFF", {"compression": "group4"}), ("BMP", {})):
        page = hostile.corner_page().convert("L").point(lambda value: 255 if value > 200 else 0).convert("1")
        image = draw(hostile.saved(page, format_name, **options))
        assert _near(image, (20, 20), BLACK, 1)
        assert _near(image, (280, 180), WHITE, 1)


@pytest.mark.parametrize("format_name", ["JPEG", "TIFF"])
def test_colours_are_right_when_the_image_is_cmyk(draw: Draw, format_name: str) -> None:
    assert _is_upright(draw(hostile.saved(hostile.corner_page("CMYK"), format_name)))


def test_page_image_says_nothing_of_its_upload_when_rendered(draw: Draw) -> None:
    content = hostile.saved(hostile.corner_page(), "JPEG", exif=_exif(1), icc_profile=b"x" * 200, comment=b"hi")
    assert draw(content).info == {}


def test_each_frame_is_a_page_when_a_tiff_has_several(draw: Draw, take: Admit) -> None:
    pages = [Image.new("RGB", (60 + n, 40), (n, n, n)) for n in range(3)]
    content = hostile.saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert [size.width_px for size in take(content).inspection.page_sizes] == [60, 61, 62]
    assert draw(content, 3).getpixel((0, 0)) == (2, 2, 2)


def test_each_page_is_upright_when_frames_of_a_tiff_lie_differently(draw: Draw, take: Admit) -> None:
    stream = io.BytesIO()
    frames = []
    for orientation in (1, 6, 8, 3):
        frame = _stored_turned(orientation)
        frame.encoderinfo = {"tiffinfo": {0x0112: orientation}}
        frames.append(frame)
    frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:])
    sizes = take(stream.getvalue()).inspection.page_sizes
    assert [(size.width_px, size.height_px) for size in sizes] == [(300, 200)] * 4
    for number in range(1, 5):
        assert _is_upright(draw(stream.getvalue(), number))


def test_thumbnail_is_no_page_when_a_tiff_carries_one(draw: Draw, take: Admit) -> None:
    stream = io.BytesIO()
    with_kind = Image.new("RGB", (10, 10))
    with_kind.encoderinfo = {"tiffinfo": {254: 1}}
    pages = [with_kind, Image.new("RGB", (60, 40), "red")]
    Image.new("RGB", (50, 40)).save(stream, "TIFF", save_all=True, append_images=pages)
    inspection = take(stream.getvalue()).inspection
    assert [size.width_px for size in inspection.page_sizes] == [50, 60]
    assert draw(stream.getvalue(), 2).getpixel((0, 0)) == RED


@pytest.mark.parametrize("format_name", ["GIF", "WEBP", "PNG", "AVIF"])
def test_first_frame_is_the_page_when_the_image_is_animated(draw: Draw, take: Admit, format_name: str) -> None:
    later = [Image.new("RGB", (300, 200), colour) for colour in ("blue", "green")]
    content = hostile.saved(hostile.corner_page(), format_name, save_all=True, append_images=later)
    assert take(content).inspection.page_count == 1
    assert _is_upright(draw(content))


def test_page_is_drawn_when_a_png_carries_a_long_text(draw: Draw) -> None:
    content = hostile.saved(hostile.corner_page(), "PNG")
    text = hostile.png_chunk(b"zTXt", b"mxfile\0\0" + zlib.compress(bytes(5 * 2**20)))
    assert _is_upright(draw(content[:33] + text + content[33:]))


def test_smallest_image_is_kept_as_it_is(draw: Draw) -> None:
    assert draw(hostile.saved(Image.new("RGB", (1, 1), "red"), "PNG")).size == (1, 1)


def test_pdf_page_is_drawn_at_200_dpi(render: Render, take: Admit) -> None:
    page = render(hostile.pdf_of_text("one"))
    assert (page.width_px, page.height_px, page.dpi) == (1653, 2339, 200)


def test_pdf_page_is_turned_when_it_says_so(draw: Draw) -> None:
    content = hostile.pdf_stream(b"", b"1 0 0 rg 0 0 20 10 re f")
    image = draw(hostile.pdf_page((100, 50), b"/Contents 4 0 R/Rotate 90", content))
    assert image.size == (139, 278)
    assert _near(image, (10, 10), RED)


def test_form_fields_and_annotations_are_drawn_when_a_pdf_has_them(draw: Draw) -> None:
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=(300, 200))
    canvas.acroForm.textfield(value="filled in", x=20, y=20, width=200, height=60, fontSize=40)
    canvas.showPage()
    canvas.save()
    assert numpy.asarray(draw(stream.getvalue()).convert("L")).min() < 80
    square = b"<</Type/Annot/Subtype/Square/Rect[10 10 90 40]/C[1 0 0]/IC[1 0 0]/F 4>>"
    assert _near(draw(hostile.pdf_page((100, 50), b"/Annots[4 0 R]", square)), (139, 69), RED)


@pytest.mark.parametrize("size", [(144_000, 144_000), (144_000, 10), (0.5, 0.5), (14_400, 1)])
def test_pdf_page_is_bounded_when_its_size_is_absurd(
    render: Render, sandbox: Sandbox, size: tuple[float, float]
) -> None:
    page = render(hostile.pdf_page(size))
    assert page.width_px * page.height_px <= IntakeSettings().max_page_pixels
    assert 1 <= max(page.width_px, page.height_px) <= LONGEST_SIDE_PX
    assert page.dpi is not None


def test_only_the_broken_page_fails_when_a_pdf_has_one(draw: Draw, take: Admit) -> None:
    good = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 100 50]>>"
    tree = b"<</Type/Pages/Kids[3 0 R 9 0 R 3 0 R]/Count 3>>"
    content = hostile.pdf(b"<</Type/Catalog/Pages 2 0 R>>", tree, good)
    assert take(content).inspection.page_count == 3
    assert draw(content, 1).size == (278, 139)
    with pytest.raises(DocumentRefused, match=r"^Page 2: ") as refusal:
        draw(content, 2)
    assert refusal.value.code == "file_corrupt"


@pytest.mark.parametrize("number", [0, -1, 2, 2**40])
@pytest.mark.parametrize("content", [hostile.saved(Image.new("L", (9, 9)), "TIFF"), hostile.pdf_of_text("one")])
def test_page_is_refused_when_the_document_has_no_such_page(draw: Draw, content: bytes, number: int) -> None:
    with pytest.raises(DocumentRefused) as refusal:
        draw(content, number)
    assert refusal.value.code == "file_corrupt"


def _noise() -> Image.Image:
    return Image.effect_noise((300, 200), 90).convert("RGB")


@pytest.mark.parametrize(
    "content",
    [
        hostile.saved(_noise(), "PNG"),
        hostile.saved(_noise(), "JPEG"),
        hostile.saved(_noise(), "JPEG", progressive=True),
        hostile.saved(_noise(), "TIFF"),
        hostile.saved(_noise(), "BMP"),
        hostile.saved(_noise(), "GIF"),
        hostile.saved(_noise(), "WEBP"),
        hostile.saved(_noise(), "AVIF"),
        _heic(_noise()),
    ],
    ids=["png", "jpeg", "jpeg-progressive", "tiff", "bmp", "gif", "webp", "avif", "heic"],
)
def test_page_is_refused_whole_when_the_file_is_cut_short(draw: Draw, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DocumentRefused) as refusal:
        draw(content[: len(content) // 2])
    assert refusal.value.code == "file_corrupt"
    assert [path.name for path in tmp_path.iterdir()] == ["upload"]


def test_page_is_unavailable_when_its_document_was_deleted_meanwhile(sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(hostile.saved(hostile.corner_page(), "PNG"))
    with pytest.raises(Unavailable):
        rasterize(sandbox, source, "image/png", 1, tmp_path / "gone" / "0001.png")
    with pytest.raises(Unavailable):
        rasterize(sandbox, tmp_path / "gone", "image/png", 1, tmp_path / "0001.png")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("rotation", "red_at", "white_at"),
    [(0, (20, 20), (280, 180)), (90, (180, 20), (20, 280)), (180, (280, 180), (20, 20)), (270, (20, 280), (180, 20))],
)
def test_view_is_turned_clockwise(
    sandbox: Sandbox, render: Render, tmp_path: Path, rotation: int, red_at: tuple[int, int], white_at: tuple[int, int]
) -> None:
    page = render(hostile.saved(hostile.corner_page(), "PNG"))
    write_view(sandbox, page, rotation, tmp_path / "0001.jpg")
    with Image.open(tmp_path / "0001.jpg") as view:
        assert view.format == "JPEG"
        assert view.size == ((300, 200) if rotation in (0, 180) else (200, 300))
        assert _near(view, red_at, RED)
        assert _near(view, white_at, WHITE)


def test_view_is_shrunk_when_jpeg_could_not_hold_it(sandbox: Sandbox, render: Render, tmp_path: Path) -> None:
    page = render(hostile.saved(Image.new("L", (70_000, 40)), "PNG"))
    assert (page.width_px, page.height_px) == (70_000, 40)
    write_view(sandbox, page, 0, tmp_path / "0001.jpg")
    with Image.open(tmp_path / "0001.jpg") as view:
        assert view.width == 16_000


def test_view_is_made_in_a_child_when_the_page_is_large(
    sandbox: Sandbox, render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = render(hostile.saved(Image.new("RGB", (3000, 2000), "white"), "PNG"))

    def refuse(*_: object) -> None:
        raise AssertionError("decoded in the portal's process")

    monkeypatch.setattr(ImageFile.ImageFile, "load", refuse)
    write_view(sandbox, page, 90, tmp_path / "0001.jpg")
    monkeypatch.undo()
    with Image.open(tmp_path / "0001.jpg") as view:
        assert view.size == (2000, 3000)


def test_view_is_unavailable_and_absent_when_its_page_is_gone(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        write_view(sandbox, PageImage(tmp_path / "gone.png", 10, 10, None), 0, tmp_path / "0001.jpg")
    assert list(tmp_path.iterdir()) == []
