"""The shared files end as their README says."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
from PIL import Image

from portal.errors import DocumentRefused
from tests.documents.conftest import Admit, Draw


def _ink(image: Image.Image) -> float:
    """Share of pixels darker than paper."""
    return float((numpy.asarray(image.convert("L")) < 128).mean())


@pytest.mark.parametrize(
    ("file_name", "media_type", "pages"),
    [
        ("cardinal.pdf", "application/pdf", 4),
        ("two_pages.tiff", "image/tiff", 2),
        ("cmyk.pdf", "application/pdf", 1),
        ("ccitt.pdf", "application/pdf", 1),
        ("baiona_alpha.png", "image/png", 1),
    ],
)
def test_every_page_has_ink_on_white_when_the_file_is_good(
    shared_cases: Path, take: Admit, draw: Draw, file_name: str, media_type: str, pages: int
) -> None:
    path = shared_cases / "files" / file_name
    inspection = take(path).inspection
    assert (inspection.media_type, inspection.page_count) == (media_type, pages)
    for number, size in enumerate(inspection.page_sizes, start=1):
        image = draw(path, number)
        assert image.size == (size.width_px, size.height_px)
        assert 0.005 < _ink(image) < 0.3
        assert float(numpy.median(numpy.asarray(image))) > 240


def test_page_is_bounded_when_a_tiny_file_claims_an_enormous_one(shared_cases: Path, draw: Draw) -> None:
    image = draw(shared_cases / "files" / "hugemono.pdf")
    assert image.width * image.height <= 50_000_000
    assert _ink(image) > 0


def test_page_is_blank_when_it_has_no_contents(shared_cases: Path, take: Admit, draw: Draw) -> None:
    path = shared_cases / "files" / "no_contents.pdf"
    assert take(path).inspection.page_count == 1
    assert draw(path).getextrema() == ((255, 255),) * 3


def test_file_is_refused_when_it_is_a_pdf_by_name_only(shared_cases: Path, take: Admit) -> None:
    with pytest.raises(DocumentRefused, match=r"^invalid\.pdf: ") as refusal:
        take(shared_cases / "files" / "invalid.pdf", "invalid.pdf")
    assert refusal.value.code == "file_corrupt"
