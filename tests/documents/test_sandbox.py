"""A file that kills, hangs or starves its child costs that file only, and never the portal's memory."""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from portal.documents.intake import Upload, admit
from portal.documents.rasterize import rasterize
from portal.documents.sandbox import Sandbox
from portal.errors import DocumentRefused, PortalError, Unavailable
from portal.settings import IntakeSettings
from tests.documents import hostile

PDF = "application/pdf"
MEMORY_BYTES = 512 * 2**20


@pytest.fixture(scope="module")
def strict() -> IntakeSettings:
    return IntakeSettings(sandbox_seconds=2, sandbox_memory_bytes=MEMORY_BYTES)


@pytest.fixture(scope="module")
def strict_sandbox(strict: IntakeSettings) -> Iterator[Sandbox]:
    children = Sandbox(strict)
    yield children
    children.close()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.pdf"
    path.write_bytes(hostile.pdf_of_text("good"))
    return path


def _children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if _is_ours(child)]


def _is_ours(child: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:  # it has just ended
        return False


def _code(sandbox: Sandbox, source: Path, media_type: str, target: Path) -> str:
    """`ok`, or the code that page 1 is refused with."""
    try:
        rasterize(sandbox, source, media_type, 1, target)
    except DocumentRefused as refusal:
        return refusal.code
    return "ok"


def _refused_page(sandbox: Sandbox, folder: Path, content: bytes) -> DocumentRefused:
    source = folder / "hostile.pdf"
    source.write_bytes(content)
    with pytest.raises(DocumentRefused, match=r"^Page 1: ") as refusal:
        rasterize(sandbox, source, PDF, 1, folder / "0001.png")
    assert not [path for path in folder.iterdir() if path.suffix in (".png", ".part")]
    return refusal.value


def _pdf_with_image(width: int, height: int) -> bytes:
    """One page showing a black RGB image of that size, packed to nearly nothing."""
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(3 * width)) for _ in range(height)) + packer.flush()
    entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d" % (width, height)
    image = hostile.pdf_stream(entries + b"/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/FlateDecode", rows)
    extra = b"/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>"
    return hostile.pdf_page((600, 800), extra, hostile.pdf_stream(b"", b"600 0 0 800 0 0 cm /I Do"), image)


@pytest.mark.parametrize(
    "content", [hostile.pdf_of_nested_forms(), hostile.pdf_of_tiny_tiles()], ids=["forms", "tiles"]
)
def test_page_is_refused_and_the_next_drawn_when_a_pdf_burns(
    strict_sandbox: Sandbox, tmp_path: Path, good: Path, content: bytes
) -> None:
    refusal = _refused_page(strict_sandbox, tmp_path, content)
    assert refusal.code == "file_unreadable"
    assert rasterize(strict_sandbox, good, PDF, 1, tmp_path / "0001.png").width_px == 1653


def test_child_stays_within_its_memory_when_an_image_would_fill_it(
    strict_sandbox: Sandbox, tmp_path: Path, good: Path
) -> None:
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            for child in _children():
                try:
                    peak = max(peak, child.memory_info().rss)
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    source = tmp_path / "hostile.pdf"
    source.write_bytes(_pdf_with_image(14_000, 14_000))
    code = _code(strict_sandbox, source, PDF, tmp_path / "0001.png")
    done.set()
    watcher.join()
    assert code in ("ok", "file_unreadable")
    assert 0 < peak <= MEMORY_BYTES
    assert rasterize(strict_sandbox, good, PDF, 1, tmp_path / "0002.png").width_px == 1653


def test_page_is_refused_when_it_needs_more_memory_than_allowed(strict_sandbox: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "large.png"
    Image.new("RGBA", (7000, 7000)).save(source, compress_level=1)
    inspection = strict_sandbox.inspect(source, owner="acme")
    with pytest.raises(DocumentRefused, match="more memory") as refusal:
        rasterize(strict_sandbox, source, inspection.media_type, 1, tmp_path / "0001.png")
    assert refusal.value.code == "file_unreadable"


def test_only_its_page_fails_when_a_child_is_killed_while_rendering(
    sandbox: Sandbox, tmp_path: Path, good: Path
) -> None:
    outcome: list[DocumentRefused] = []
    before = {child.pid: child.cpu_times().user for child in _children()}
    thread = threading.Thread(
        target=lambda: outcome.append(_refused_page(sandbox, tmp_path, hostile.pdf_of_tiny_tiles()))
    )
    thread.start()
    busy = _busy_child(before)
    target = tmp_path / "beside"
    target.mkdir()
    assert rasterize(sandbox, good, PDF, 1, target / "0001.png").width_px == 1653
    busy.kill()
    thread.join(20)
    assert [refusal.code for refusal in outcome] == ["file_unreadable"]
    for number in (2, 3):
        assert rasterize(sandbox, good, PDF, 1, target / f"{number}.png").width_px == 1653


def _busy_child(before: dict[int, float]) -> psutil.Process:
    for _ in range(500):
        for child in _children():
            if child.cpu_times().user - before.get(child.pid, 0) > 0.3:
                return child
        time.sleep(0.01)
    raise AssertionError("no child became busy")


def test_others_are_served_when_bombs_of_one_tenant_hang_the_intake(
    limits: IntakeSettings, tmp_path: Path, good: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it hangs, as a bomb of the worst kind would
    children = Sandbox(limits)
    codes: list[str] = []

    def submit() -> None:
        try:
            children.inspect(pipe, owner="flood")  # not `admit`: a pipe has no size
        except PortalError as error:
            codes.append(error.code)

    bombs = [threading.Thread(target=submit) for _ in range(130)]
    for bomb in bombs:
        bomb.start()
    try:
        assert admit(Upload("good.pdf", good), children, limits, owner="quiet").inspection.page_count == 1
        assert rasterize(children, good, PDF, 1, tmp_path / "0001.png").width_px == 1653
        assert any(bomb.is_alive() for bomb in bombs), "the bombs hang all the while"
    finally:
        children.close()
        for bomb in bombs:
            bomb.join(20)
    assert codes.count("intake_busy") >= 28, "no more than 102 threads are held for one tenant"
    assert set(codes) <= {"intake_busy", "unavailable"}


def test_call_is_unavailable_when_the_sandbox_is_closed(strict: IntakeSettings, good: Path) -> None:
    closed = Sandbox(strict)
    closed.close()
    with pytest.raises(Unavailable):
        closed.inspect(good, owner="acme")


def test_log_stays_empty_when_a_decoder_complains_of_every_row(
    strict: IntakeSettings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(hostile.saved(hostile.corner_page("1"), "TIFF", compression="group4"))
    content[8:11] = b"\0\xff\0"  # the first bytes of the strip
    (tmp_path / "fax.tif").write_bytes(bytes(content))
    fresh = Sandbox(strict)
    try:
        assert _code(fresh, tmp_path / "fax.tif", "image/tiff", tmp_path / "0001.png") == "file_corrupt"
    finally:
        fresh.close()
    assert capfd.readouterr().err == ""


def _seeds() -> list[bytes]:
    page = Image.effect_noise((40, 30), 80).convert("RGB")
    images = [hostile.saved(page, name) for name in ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "AVIF")]
    odd = [
        hostile.saved(page.convert("L"), "TIFF", compression="tiff_lzw"),
        hostile.saved(page.convert("1"), "TIFF", compression="group4"),
        hostile.saved(page.quantize(), "PNG", transparency=3),
        hostile.saved(page, "PNG", save_all=True, append_images=[page.rotate(90)]),
        hostile.pdf_of_text("one", "two"),
        hostile.pdf_with_password(""),
        hostile.tiff_chain(4, next_of_last=110),
    ]
    return images + odd


@st.composite
def _broken(draw: st.DrawFn) -> bytes:
    """A valid file cut short or with some bytes changed; or only a signature before noise; or noise."""
    seed = bytearray(draw(st.sampled_from(_SEEDS)))
    kind = draw(st.sampled_from(("cut", "changed", "headed", "noise")))
    if kind == "cut":
        return bytes(seed[: draw(st.integers(1, len(seed)))])
    noise = draw(st.binary(min_size=1, max_size=300))
    if kind == "changed":
        for byte in noise[:12]:
            seed[draw(st.integers(0, min(len(seed), 600) - 1))] = byte
        return bytes(seed)
    return bytes(seed[:16]) + noise if kind == "headed" else noise


_SEEDS = _seeds()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(content=_broken())
def test_nothing_but_a_refusal_comes_out_of_any_bytes(
    sandbox: Sandbox, limits: IntakeSettings, tmp_path: Path, content: bytes
) -> None:
    source, target = tmp_path / "upload", tmp_path / "0001.png"
    source.write_bytes(content)
    code = "ok"
    try:
        inspection = admit(Upload("scan.bin", source), sandbox, limits, owner="acme").inspection
        assert inspection.page_count >= 1
        rasterize(sandbox, source, inspection.media_type, inspection.page_count, target)
    except DocumentRefused as refusal:
        code = refusal.code
    assert code == "ok" or code.startswith(("file_", "too_many_"))
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]
