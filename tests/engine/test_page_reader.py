"""Reading real pixels: orientation, boxes, tables, columns, blank pages; offline."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from bench.accuracy import character_error_rate, word_recall
from portal.children import ChildLimits, ChildPool
from portal.domain import PageImage
from portal.engine.page_reader import detection_scale, read_page
from portal.errors import EngineError
from portal.page_text import PageText
from tests.engine.conftest import Reader, save

_TURNS = {0: None, 90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}


def _scan(folder: Path, name: str, tmp_path: Path) -> tuple[PageImage, str]:
    with Image.open(folder / "scans" / name) as image:
        page = save(image, tmp_path / "scan.png")
    return page, (folder / "truth" / f"{Path(name).stem}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("degrees", _TURNS)
def test_page_is_read_upright_with_boxes_in_place_when_it_is_turned(
    read: Reader, letter: PageImage, tmp_path: Path, degrees: int
) -> None:
    turn = _TURNS[degrees]
    with Image.open(letter.path) as image:
        page = read(save(image if turn is None else image.transpose(turn), tmp_path / "turned.png"))
    assert page.rotation_degrees == degrees  # Pillow turns counter-clockwise, the page is turned back clockwise
    assert (page.width_px, page.height_px) == (700, 900)
    assert page.text.replace("\n\n", "\n").splitlines() == [
        *("Dear customer,", "we received your order", "of the first of July.", "Total 419.50 EUR", "Goodbye"),
    ]
    for line, left, top in zip(page.lines, (60, 60, 60, 60, 450, 60), (80, 150, 220, 290, 290, 360), strict=True):
        x0, y0, x1, y1 = line.box
        assert abs(x0 - left) < 12
        assert top - 8 < y0 < top + 14
        assert x1 > x0
        assert 25 < y1 - y0 < 60
        assert line.quad is not None
        assert line.quad[0] == pytest.approx(x0, abs=6)
    assert page.confidence is not None
    assert page.confidence > 0.9


def test_page_is_blank_when_it_has_only_specks_and_stains(read: Reader, tmp_path: Path) -> None:
    image, dice = Image.new("L", (800, 1100), 245), random.Random(3)
    draw = ImageDraw.Draw(image)
    for _ in range(900):
        x, y, size = dice.randrange(800), dice.randrange(1100), dice.randrange(1, 5)
        draw.ellipse((x, y, x + size, y + size), fill=dice.randrange(120))
    draw.rectangle((0, 0, 800, 14), fill=30)
    draw.ellipse((20, 300, 60, 340), fill=20)
    page = read(save(image, tmp_path / "noise.png"))
    assert page.is_blank
    assert page.lines == ()


def test_page_is_blank_when_it_is_white(read: Reader, tmp_path: Path) -> None:
    assert read(save(Image.new("L", (600, 800), 255), tmp_path / "white.png")).is_blank


def test_skew_is_measured_when_the_page_is_tilted(read: Reader, letter: PageImage, tmp_path: Path) -> None:
    with Image.open(letter.path) as image:
        tilted = image.rotate(-3, fillcolor="white", resample=Image.Resampling.BICUBIC)
        page = read(save(tilted, tmp_path / "tilted.png"))
    assert page.skew_degrees == pytest.approx(3, abs=0.6)
    assert "Total 419.50 EUR" in page.text


def test_boxes_are_in_pixels_of_the_page_when_it_is_huge(read: Reader, letter: PageImage, tmp_path: Path) -> None:
    with Image.open(letter.path) as image:
        huge = image.convert("L").resize((5600, 7200))
        page = read(save(huge.transpose(Image.Transpose.ROTATE_90), tmp_path / "huge.png"))
    assert (page.width_px, page.height_px, page.rotation_degrees) == (5600, 7200, 90)
    assert page.lines[0].text == "Dear customer,"
    assert page.lines[0].box[0] == pytest.approx(8 * 60, abs=90)
    assert page.lines[0].box[1] == pytest.approx(8 * 85, abs=90)


def test_single_line_is_read_when_the_sheet_is_of_poster_size(read: Reader, tmp_path: Path) -> None:
    image = Image.new("L", (7000, 7000), 255)
    pen = ImageDraw.Draw(image)
    pen.text((340, 900), "A big sheet with a tiny amount of text", fill=0, font=ImageFont.load_default(size=52))
    page = read(save(image, tmp_path / "poster.png"))
    assert page.text == "A big sheet with a tiny amount of text"
    x0, y0, x1, y1 = page.lines[0].box
    assert (abs(x0 - 340) < 30, 870 < y0 < 920, 1100 < x1 < 1500, 940 < y1 < 1010) == (True, True, True, True)


@pytest.mark.parametrize("size", [(2400, 40), (40, 2400), (8, 8), (1, 1)])
def test_page_is_read_or_blank_when_its_shape_is_odd(read: Reader, tmp_path: Path, size: tuple[int, int]) -> None:
    page = read(save(Image.new("L", size, 255), tmp_path / "odd.png"))
    assert (page.is_blank, page.width_px, page.height_px) == (True, *size)


def test_failure_is_permanent_when_the_image_is_gone_or_broken(read: Reader, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"not an image")
    for path in (broken, tmp_path / "gone.png"):
        with pytest.raises(EngineError) as failure:
            read(PageImage(path, 10, 10))
        assert failure.value.is_permanent


def test_detection_size_is_bounded_for_any_page() -> None:
    for width, height in ((2480, 3508), (600, 600), (100, 9000), (7000, 7000), (30, 20)):
        scale = detection_scale(width, height)
        assert width * height * scale * scale <= 2_500_001


def test_turned_page_is_read_when_it_is_a_real_scan(read: Reader, shared_cases: Path, tmp_path: Path) -> None:
    image, truth = _scan(shared_cases, "en_photo_R.png", tmp_path)
    page = read(image)
    assert page.rotation_degrees == 270
    assert character_error_rate(truth, page.text) <= 0.02


def test_columns_are_read_in_order_when_it_is_a_real_scan(read: Reader, shared_cases: Path, tmp_path: Path) -> None:
    image, truth = _scan(shared_cases, "en_linn_2col.png", tmp_path)
    assert character_error_rate(truth, read(image).text) <= 0.02


def test_spaces_are_put_back_when_they_are_seen_on_a_real_scan(
    read: Reader, shared_cases: Path, tmp_path: Path
) -> None:
    with Image.open(shared_cases / "scans" / "de_apotheke.jpg") as image:
        text = read(save(image.crop((180, 600, 720, 925)), tmp_path / "crop.png")).text
    assert "Tel.: 05251/56677" in text
    assert "Fax: 05251/55572" in text


def test_table_is_found_when_it_is_a_real_scan(read: Reader, shared_cases: Path, tmp_path: Path) -> None:
    image, truth = _scan(shared_cases, "zh_lab_table.jpg", tmp_path)
    page = read(image)
    assert "| TBIL | 总胆红素 | 11.2 | <20 | umol/L |" in page.markdown
    assert [block.kind for block in page.blocks] == ["table"]
    assert word_recall(truth, page.text) >= 0.97


def test_page_is_read_when_there_is_no_network(letter: PageImage) -> None:
    children = ChildPool(1, ChildLimits(memory_bytes=1536 * 2**20, cpu_seconds=100))
    try:
        page = children.run(_read_without_network, str(letter.path), wall_seconds=100)
    finally:
        children.close()
    assert "Dear customer," in page.text


def _read_without_network(path: str) -> PageText:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the reader asked for the network")

    socket.getaddrinfo = refuse  # type: ignore[assignment]
    socket.socket.connect = refuse  # type: ignore[assignment,method-assign]
    return read_page(path, 1)


def test_nothing_is_kept_to_be_sent_to_anybody_when_the_networks_library_is_loaded(tmp_path: Path) -> None:
    its_switches = ("CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "XDG_CACHE_HOME")
    environ = {name: value for name, value in os.environ.items() if name not in its_switches}
    subprocess.run(
        [sys.executable, "-c", "import portal.engine.page_reader"],
        env=environ | {"HOME": str(tmp_path)},
        check=True,
    )
    assert not list(tmp_path.rglob("*onnxruntime*"))
