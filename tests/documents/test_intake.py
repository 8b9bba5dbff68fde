"""Every file that cannot be read is refused by name, with the right code and a remedy."""

from __future__ import annotations

import hashlib
import os
import unicodedata
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.documents.intake import MAX_NAME_BYTES, Upload, admit, clean_file_name
from portal.documents.sandbox import Sandbox
from portal.domain import PageSize
from portal.errors import DocumentRefused, Unavailable
from portal.settings import IntakeSettings
from tests.documents import hostile
from tests.documents.conftest import Admit

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>'
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
ICO = b"\0\0\1\0\1\0\x10\x10\0\0\1\0\x20\0"


def _refused(take: Admit, content: bytes | Path, file_name: str) -> DocumentRefused:
    with pytest.raises(DocumentRefused) as refusal:
        take(content, file_name)
    assert refusal.value.message.startswith(f"{file_name}: ")
    assert refusal.value.remedy
    return refusal.value


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (hostile.saved(hostile.corner_page(), "PNG"), "image/png"),
        (hostile.saved(hostile.corner_page(), "JPEG"), "image/jpeg"),
        (hostile.saved(hostile.corner_page(), "TIFF"), "image/tiff"),
        (hostile.saved(hostile.corner_page(), "WEBP"), "image/webp"),
        (hostile.saved(hostile.corner_page(), "BMP"), "image/bmp"),
        (hostile.saved(hostile.corner_page(), "GIF"), "image/gif"),
        (hostile.saved(hostile.corner_page(), "AVIF"), "image/avif"),
    ],
)
def test_image_is_admitted_by_content_when_its_name_lies(take: Admit, content: bytes, media_type: str) -> None:
    admitted = take(content, "letter.exe")
    assert admitted.inspection.media_type == media_type
    assert admitted.inspection.page_sizes == (PageSize(300, 200),)
    assert admitted.sha256 == hashlib.sha256(content).hexdigest()
    assert admitted.byte_size == len(content)
    assert admitted.file_name == "letter.exe"


def test_pdf_is_admitted_when_junk_precedes_it(take: Admit) -> None:
    admitted = take(b"From: scanner\r\n\r\n" + hostile.pdf_of_text("one", "two"), "mail.pdf")
    assert admitted.inspection.media_type == "application/pdf"
    assert admitted.inspection.page_sizes == (PageSize(1653, 2339),) * 2


@pytest.mark.parametrize(
    "content", [SVG, EPS, ICO, b"<html><body>hi</body></html>", b"\0" * 5000, b"a", b"RIFF\0\0\0\0WAVE", b"ftyp"]
)
def test_file_is_refused_when_its_type_is_not_taken(take: Admit, content: bytes) -> None:
    refusal = _refused(take, content, "drawing.png")
    assert refusal.code == "file_type_unknown"
    assert "PDF, PNG, JPEG" in refusal.remedy


def test_zip_is_refused_when_it_is_named_pdf(take: Admit, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("a.txt", "a" * 2000)
    assert _refused(take, tmp_path / "archive", "scan.pdf").code == "file_type_unknown"


def test_file_is_refused_when_empty(take: Admit) -> None:
    assert _refused(take, b"", "scan.pdf").code == "file_empty"


def test_file_is_refused_with_both_sizes_when_too_large(take: Admit, limits: IntakeSettings) -> None:
    refusal = _refused(take, bytes(limits.max_file_bytes + 1), "scan.pdf")
    assert refusal.code == "file_too_large"
    assert "20.1 MB" in refusal.message
    assert "20 MB" in refusal.message


def test_pdf_is_refused_when_it_needs_a_password(take: Admit) -> None:
    assert _refused(take, hostile.pdf_with_password("user"), "scan.pdf").code == "file_encrypted"


def test_pdf_is_admitted_when_only_its_owner_has_a_password(take: Admit) -> None:
    assert take(hostile.pdf_with_password("")).inspection.page_count == 1


@pytest.mark.parametrize(
    "content",
    [
        b"%PDF-1.7\nnothing else",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0junk",
        b"GIF89a",
        b"BM" + bytes(60),
        b"II*\0\xff\xff\xff\xff",
        hostile.pdf(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>"),
        hostile.pdf(
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 40>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        ),
        hostile.png(0, 10, b""),
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
        b"RIFF\x10\0\0\0WEBPVP8X",
    ],
)
def test_file_is_refused_when_only_its_head_is_right(take: Admit, content: bytes) -> None:
    assert _refused(take, content, "scan").code == "file_corrupt"


def test_pdf_is_refused_when_it_has_too_many_pages(take: Admit) -> None:
    refusal = _refused(take, hostile.pdf_of_text(*["x"] * 51), "book.pdf")
    assert refusal.code == "too_many_pages"
    assert "51 pages; the limit is 50" in refusal.message


def test_tiff_is_refused_quickly_when_it_has_100000_frames(take: Admit) -> None:
    refusal = _refused(take, hostile.tiff_chain(100_000), "fax.tif")
    assert refusal.code == "too_many_pages"
    assert "more than 50 pages" in refusal.message


def test_tiff_ends_when_its_frames_go_in_circles(take: Admit) -> None:
    assert take(hostile.tiff_chain(3, next_of_last=8)).inspection.page_count == 3


@pytest.mark.parametrize(
    "content",
    [
        hostile.png_of_176_megapixels(),
        hostile.png(2**31 - 1, 2**31 - 1, b""),
        hostile.webp_claiming(16_383, 16_383),
        hostile.tiff_chain(1, size=(8000, 1))[:-8000].replace(
            b"\x01\1\4\0\1\0\0\0\1\0\0\0", b"\x01\1\4\0\1\0\0\0\0\x20\0\0"
        ),
        b"BM" + bytes(12) + b"\x28\0\0\0" + b"\0\0\2\0" * 2 + b"\1\0\x18\0" + bytes(24),
        b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\0;",
    ],
    ids=["png", "png-claims", "webp-claims", "tiff-claims", "bmp-claims", "gif-claims"],
)
def test_image_is_refused_before_decoding_when_it_has_too_many_pixels(take: Admit, content: bytes) -> None:
    refusal = _refused(take, content, "bomb")
    assert refusal.code == "too_many_pixels"
    assert "50 million" in refusal.message


def test_tiff_is_refused_when_a_later_frame_has_too_many_pixels(take: Admit) -> None:
    content = bytearray(hostile.tiff_chain(3, size=(300, 300)))
    second = 8 + 102 + 2
    content[second + 8 : second + 12] = (400_000).to_bytes(4, "little")
    assert _refused(take, bytes(content), "fax.tif").code == "too_many_pixels"


def test_next_file_is_admitted_when_one_hangs_its_child(take: Admit, limits: IntakeSettings, tmp_path: Path) -> None:
    hanging = Sandbox(IntakeSettings(sandbox_seconds=2))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    try:
        with pytest.raises(DocumentRefused) as refusal:
            hanging.inspect(pipe, owner="acme")
        assert refusal.value.code == "file_unreadable"
        (tmp_path / "ok.png").write_bytes(hostile.saved(hostile.corner_page(), "PNG"))
        assert admit(Upload("ok.png", tmp_path / "ok.png"), hanging, limits, owner="acme").inspection.page_count == 1
    finally:
        hanging.close()


def test_upload_is_unavailable_when_its_file_is_gone(take: Admit, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as refusal:
        take(tmp_path / "gone", "scan.pdf")
    assert str(tmp_path) not in refusal.value.message


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("C:\\Scans\\Rechnung.pdf", "Rechnung.pdf"),
        ("/", "document"),
        ("", "document"),
        ("..", "document"),
        (" \t.\n", "document"),
        ("folder/", "folder"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("a\0b\x1b[31m\x7f\u2028c.pdf", "ab[31m c.pdf"),
        ("scan.pdf          .exe", "scan.pdf .exe"),
        ("Cafe\u0301.pdf", "Café.pdf"),
        ("\ud800lone.pdf", "lone.pdf"),
        ("نامه\u200cها.pdf", "نامه\u200cها.pdf"),
        ("納品書.pdf", "納品書.pdf"),
    ],
)
def test_file_name_is_clean_when_it_was_not(name: str, clean: str) -> None:
    assert clean_file_name(name) == clean


def test_extension_survives_when_the_name_is_cut() -> None:
    clean = clean_file_name("ü" * 300 + ".tiff")
    assert clean.endswith("ü.tiff")
    assert len(clean.encode()) <= MAX_NAME_BYTES
    assert len(clean_file_name("x" * 300 + "." + "y" * 300).encode()) == MAX_NAME_BYTES


@given(st.text(max_size=400))
def test_any_name_comes_out_fit(name: str) -> None:
    clean = clean_file_name(name)
    assert clean
    assert len(clean.encode()) <= MAX_NAME_BYTES
    assert not {"/", "\\"} & set(clean)
    assert clean == clean_file_name(clean)
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in clean)
