"""Bodies are bounded, uploads are counted while they stream through, and only what our pages send passes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.web.uploads import sweep
from tests.web.gradio_client import Served, event, join, new_hash, upload

OURS = "https://ocr.example"
EVENT_ROUTES = ("/gradio_api/queue/join", "/gradio_api/run/echo")


def client(tight: Served, token: str) -> httpx.Client:
    return tight.client(token, origin=OURS)


def part(name: str, content: bytes, *, file_name: str | None = "scan.txt") -> bytes:
    file = f'; filename="{file_name}"' if file_name is not None else ""
    return f'--B\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content + b"\r\n"


def post_parts(member: httpx.Client, *parts: bytes, kind: str = "multipart/form-data; boundary=B") -> httpx.Response:
    body = b"".join(parts) + b"--B--\r\n"
    return member.post("/gradio_api/upload", content=body, headers={"Content-Type": kind})


def stray_files(served: Served) -> list[Path]:
    """Left by an upload; gr.File leaves an empty one for each event it is an input of."""
    return [path for path in served.upload_dir.glob("tmp*") if path.is_file() and path.stat().st_size]


def test_upload_is_refused_when_its_stated_length_passes_the_budget(tight: Served) -> None:
    member = client(tight, "f1")
    answer = post_parts(member, part("files", b"x" * 400_000))
    assert (answer.status_code, answer.json()["code"]) == (429, "upload_budget_spent")
    assert 0 < int(answer.headers["retry-after"]) <= 3600
    assert answer.json()["remedy"]
    assert upload(member, "still room for a small one")


def test_upload_is_stopped_when_its_chunks_pass_the_budget(tight: Served) -> None:
    def chunks() -> Iterator[bytes]:
        yield part("files", b"")[:-2]
        for _ in range(40):
            yield b"x" * 10_000
        yield b"\r\n--B--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    answer = client(tight, "f2").post("/gradio_api/upload", content=chunks(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (429, "upload_budget_spent")
    assert stray_files(tight) == []


def test_budget_is_each_members_own_when_one_has_spent_it(tight: Served) -> None:
    spender = client(tight, "f3")
    assert post_parts(spender, part("files", b"x" * 290_000)).status_code == 200
    assert post_parts(spender, part("files", b"x" * 20_000)).status_code == 429
    assert post_parts(client(tight, "f4"), part("files", b"x" * 20_000)).status_code == 200


def test_large_upload_passes_when_it_fits(guarded: Served) -> None:
    member = guarded.client("f5")
    content = os.urandom(8_000_000) + b"\r\n--B\r\n("[:-1]
    answer = member.post("/gradio_api/upload", files={"files": ("big.bin", content)})
    (path,) = answer.json()
    assert member.get(f"/gradio_api/file={path}").content == content


@pytest.mark.parametrize(
    "wrong",
    [
        part("files", b"x" * 100, file_name=None),
        part("note", b"x", file_name=None),
        part("other", b"x"),
        part("files", b"1") + part("files", b"2") + part("files", b"3"),
        b"--B\r\nContent-Type: text/plain\r\n\r\nx\r\n",
        b"--B\r\n(\r\n\r\nx\r\n",
        b"--C\r\nContent-Disposition: form-data; name=files; filename=a\r\n\r\nx\r\n",
    ],
)
def test_upload_is_refused_when_it_holds_more_than_files(tight: Served, wrong: bytes) -> None:
    answer = post_parts(client(tight, "f6"), wrong, part("files", b"good", file_name="good.txt"))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert stray_files(tight) == []


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data",
        "application/json",
        "text/plain",
        "multipart/mixed; boundary=B",
        "multipart/form-data; boundary=",
    ],
)
def test_upload_is_refused_when_it_is_not_form_data(tight: Served, kind: str) -> None:
    answer = post_parts(client(tight, "f7"), part("files", b"x"), kind=kind)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_call_is_refused_when_its_body_is_too_long(tight: Served) -> None:
    member = client(tight, "a")
    said = join(member, tight, ["x" * 30_000, "", None], new_hash())
    assert (said.status_code, said.json()["code"]) == (413, "request_too_large")

    def chunks() -> Iterator[bytes]:
        for _ in range(30):
            yield b'"' + b"x" * 1000

    for route in EVENT_ROUTES:
        answer = member.post(route, content=chunks(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413


BAD_BODIES: list[Any] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b'{"data": NaN, "fn_index": 0, "session_hash": "a"}',
    b'{"data": [1e999], "fn_index": 0, "session_hash": "a"}',
    b"[" * 9000,
    b'{"data": ' + b"[" * 5000 + b"]" * 5000 + b', "fn_index": 0, "session_hash": "a"}',
    b'{"data": [' + b"9" * 6000 + b'], "fn_index": 0, "session_hash": "a"}',
    '{"data": [], "fn_index": 0, "session_hash": "ü"}'.encode("latin-1"),
    '{"data": [], "fn_index": 0, "session_hash": "a"}'.encode("utf-16"),
    {"data": [], "fn_index": 0},
    {"data": [], "session_hash": "a"},
    {"fn_index": 0, "session_hash": "a"},
    {"data": [], "fn_index": 0, "session_hash": ""},
    {"data": [], "fn_index": 0, "session_hash": "a.b"},
    {"data": [], "fn_index": 0, "session_hash": "a" * 65},
    {"data": [], "fn_index": 0, "session_hash": ["a"]},
    {"data": [], "fn_index": 0, "session_hash": None},
    {"data": [], "fn_index": True, "session_hash": "a"},
    {"data": [], "fn_index": "0", "session_hash": "a"},
    {"data": [], "fn_index": 0.0, "session_hash": "a"},
    {"data": [], "fn_index": None, "session_hash": "a"},
    {"data": [], "fn_index": -1, "session_hash": "a"},
    {"data": [], "fn_index": 2**31, "session_hash": "a"},
    {"data": [], "fn_index": 0, "session_hash": "a", "trigger_id": -1},
    {"data": [], "fn_index": 0, "session_hash": "a", "event_id": "x"},
    {"data": [], "fn_index": 0, "session_hash": "a", "batched": True},
    {"data": [], "fn_index": 0, "session_hash": "a", "simple_format": True},
    {"data": [], "fn_index": 0, "session_hash": "a", "oauth_token": "x"},
    {"data": [], "fn_index": 0, "session_hash": "a", "request": {}},
    {"data": [], "fn_index": 0, "session_hash": "a", "trigger_id": "x"},
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: str(body)[:50])
def test_call_is_refused_when_our_pages_would_not_make_it(guarded: Served, body: Any) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    for route in EVENT_ROUTES:
        answer = guarded.client("a").post(route, content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_unknown_event_is_refused_in_words_on_every_route(guarded: Served) -> None:
    unknown = max(guarded.fn_indices.values()) + 1
    body = {"data": [], "fn_index": unknown, "session_hash": new_hash()}
    cancel = {"event_id": "x", "fn_index": unknown, "session_hash": new_hash()}
    for route, sent in (*((route, body) for route in EVENT_ROUTES), ("/gradio_api/cancel", cancel)):
        answer = guarded.client("a").post(route, json=sent)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "reload the page" in answer.json()["remedy"]


def test_last_of_two_keys_is_what_gradio_sees_and_what_is_checked(guarded: Served) -> None:
    hers, his = new_hash(), new_hash()
    assert join(guarded.client("a"), guarded, [None, "", None], hers).is_success
    index = guarded.fn_indices["tick"]
    body = f'{{"data": [], "fn_index": {index}, "session_hash": "{his}", "session_hash": "{hers}"}}'
    headers = {"Content-Type": "application/json"}
    assert guarded.client("b").post("/gradio_api/run/tick", content=body, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B", ""]
)
def test_call_is_refused_when_it_is_not_json(guarded: Served, kind: str) -> None:
    content = json.dumps(event(guarded, "tick", [], new_hash())).encode()
    for route in ("/gradio_api/run/tick", "/gradio_api/component_server/"):
        answer = guarded.client("a").post(route, content=content, headers={"Content-Type": kind})
        assert answer.status_code == 415


@pytest.mark.parametrize(
    "query", ["", "session_hash=", "session_hash=a&session_hash=b", "session_hash=a.b", "session_hash=%00"]
)
def test_stream_is_refused_when_its_session_hash_is_not_one(guarded: Served, query: str) -> None:
    assert guarded.client("a").get(f"/gradio_api/queue/data?{query}").status_code == 422


def test_sweep_removes_only_old_stray_files(tmp_path: Path) -> None:
    old, new, kept = tmp_path / "tmpold", tmp_path / "tmpnew", tmp_path / "hash" / "tmpkept"
    kept.parent.mkdir()
    for path in (old, new, kept):
        path.write_text("x")
    for path in (old, kept):
        os.utime(path, (time.time() - 7200,) * 2)
    (tmp_path / "tmplink").symlink_to(kept)
    assert sweep(tmp_path, older_than_seconds=3600) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hash", "tmplink", "tmpnew"]
    assert kept.exists()
