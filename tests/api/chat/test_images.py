"""POST /v1/chat/completions: which images are taken and passed on as they are, and what is refused unasked."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image

from tests.api.chat import PATH, asking, assert_idle, data_url, entries, image
from tests.api.conftest import Persona, Portal, assert_problem, png
from tests.scripted_vllm import ScriptedVllm


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.png",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "data:image/png,raw",
        "data:image/png;base64",
        "//example.org/a.png",
        "",
    ],
)
def test_remote_and_strange_urls_are_refused(live: Portal, alice: Persona, vllm: ScriptedVllm, url: str) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image(url) if url else image(" "))), 422, "url_refused")
    assert vllm.received == []


def test_two_images_are_refused(live: Portal, alice: Persona) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image(), image())), 422, "invalid_request")


def test_url_as_a_bare_string_is_taken(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    assert alice.client.post(PATH, json=asking({"type": "image_url", "image_url": data_url(png())})).status_code == 200
    assert vllm.received[-1].images == [data_url(png())]


def jpeg(width_px: int = 40, height_px: int = 30) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width_px, height_px), "white").save(buffer, "JPEG", exif=b"Exif\0\0" + b"\xff\xd9" * 30_000)
    return buffer.getvalue()


def webp() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(buffer, "WEBP")
    return buffer.getvalue()


def bomb(width_px: int, height_px: int) -> bytes:
    """A PNG whose header claims so many pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n\0\0\0\x0d"
        + header
        + struct.pack(">I", zlib.crc32(header))
        + b"\0\0\0\0IEND"
        + struct.pack(">I", zlib.crc32(b"IEND"))
    )


@pytest.mark.parametrize("content", [png(), jpeg(), webp()])
def test_each_kind_of_image_is_passed_on_by_its_bytes_whatever_it_is_called(
    live: Portal, alice: Persona, vllm: ScriptedVllm, content: bytes
) -> None:
    assert alice.client.post(PATH, json=asking(image(data_url(content, "x-unknown")))).status_code == 200
    kind = {b"\x89": "png", b"\xff": "jpeg", b"R": "webp"}[content[:1]]
    assert vllm.received[-1].images == [data_url(content, kind)]


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "file_empty"),
        (b"%PDF-1.7", 415, "file_type_unknown"),
        (b"GIF89a" + b"\0" * 50, 415, "file_type_unknown"),
        (b"<svg/>", 415, "file_type_unknown"),
        (bomb(60_000, 60_000), 422, "too_many_pixels"),
        (bomb(2**31, 2**31), 422, "too_many_pixels"),
        (bomb(0, 5), 422, "file_corrupt"),
        (png()[:-20], 422, "file_corrupt"),
        (png()[:20], 422, "file_corrupt"),
        (png()[:16] + b"\xff\xff" + png()[18:], 422, "file_corrupt"),
        (jpeg()[:-400], 422, "file_corrupt"),
        (b"\xff\xd8\xff\xe0\0\0", 422, "file_corrupt"),
        (b"\xff\xd8" + b"\xff" * 5000, 422, "file_corrupt"),
        (webp()[:-5], 422, "file_corrupt"),
        (b"RIFF\x10\0\0\0WEBPVP9 " + b"\0" * 20, 422, "file_corrupt"),
        (b"\xff" * (2**20 + 1), 413, "file_too_large"),
    ],
)
def test_hostile_image_is_refused_without_asking_the_engine(
    live: Portal, alice: Persona, vllm: ScriptedVllm, content: bytes, status: int, code: str
) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image(data_url(content)))), status, code)
    assert (entries(live, alice), vllm.received) == ([], [])
    assert_idle(live)


def test_broken_base64_is_refused(live: Portal, alice: Persona) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image("data:image/png;base64,!!!!"))), 422, "file_corrupt")
    assert_idle(live)
