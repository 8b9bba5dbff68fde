"""A JSON body's data: URL ends as the file it was, however the body is cut and escaped, in little memory."""

from __future__ import annotations

import base64
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.api.incoming import IncomingFile
from portal.api.json_body import JsonBody
from portal.errors import DocumentRefused, InvalidRequest


def _reader(folder: Path, *, limit_bytes: int = 2**30) -> JsonBody[IncomingFile]:
    path = folder / "document"
    path.unlink(missing_ok=True)
    return JsonBody(lambda: IncomingFile(path, "The document", limit_bytes))


def _body(encoded: str) -> bytes:
    return (
        '{"note": "a \\"b\\", c\\\\", "url": "data:image/PNG;x=1;base64,' + encoded + '", "n": [1, "data:"]}'
    ).encode()


def _escaped(encoded: str, way: str) -> str:
    if way == "slashes":
        return encoded.replace("/", "\\/")
    if way == "unicode":
        return encoded.replace("+", "\\u002B").replace("/", "\\u002f").replace("=", "\\u003D")
    if way == "lines":
        return "\\n".join(encoded[start : start + 76] for start in range(0, len(encoded), 76))
    return encoded.rstrip("=") if way == "unpadded" else encoded


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.binary(max_size=400),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    way=st.sampled_from(["plain", "slashes", "unicode", "lines", "unpadded"]),
)
def test_file_is_whole_however_the_body_is_cut_and_escaped(
    tmp_path: Path, content: bytes, cuts: list[int], way: str
) -> None:
    text = _body(_escaped(base64.b64encode(content).decode(), way))
    body = _reader(tmp_path)
    start = place = 0
    while start < len(text):
        end = start + cuts[place % len(cuts)]
        body.feed(text[start:end])
        start, place = end, place + 1
    assert body.value() == {"note": 'a "b", c\\', "url": body.placeholder, "n": [1, "data:"]}
    assert body.file is not None
    assert body.file.path.read_bytes() == content
    assert body.media_type == "image/png"


def test_memory_stays_small_when_the_document_is_large(tmp_path: Path) -> None:
    chunk = base64.b64encode(bytes(3 * 2**14))
    body = _reader(tmp_path)
    tracemalloc.start()
    try:
        body.feed(b'{"url": "data:;base64,')
        for _ in range(400):
            body.feed(chunk)
        body.feed(b'"}')
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert body.file is not None
    assert body.file.path.stat().st_size == 400 * 3 * 2**14
    assert peak_bytes < 2**20


@pytest.mark.parametrize("encoded", ["A", "AAA=A", "!!!!", "AA\\\\", 'AA\\"AA', "AAAA\\"])
def test_document_is_refused_when_it_is_no_base64(tmp_path: Path, encoded: str) -> None:
    with closing(_reader(tmp_path)) as body, pytest.raises(DocumentRefused) as refusal:
        body.feed(('{"url": "data:;base64,' + encoded + '"}').encode())
    assert refusal.value.code == "file_corrupt"


def test_document_is_refused_as_soon_as_it_passes_the_limit(tmp_path: Path) -> None:
    with closing(_reader(tmp_path, limit_bytes=100)) as body, pytest.raises(DocumentRefused) as refusal:
        body.feed(b'{"url": "data:;base64,' + base64.b64encode(bytes(101)) + b'"}')
    assert refusal.value.code == "file_too_large"


def test_second_data_url_is_refused(tmp_path: Path) -> None:
    with closing(_reader(tmp_path)) as body, pytest.raises(InvalidRequest):
        body.feed(b'["data:;base64,AAAA", "data:;base64,AAAA"]')


def test_placeholder_cannot_be_guessed(tmp_path: Path) -> None:
    assert _reader(tmp_path).placeholder != _reader(tmp_path).placeholder
