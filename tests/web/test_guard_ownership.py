"""What Gradio takes from anybody, tried by a stranger: with the guard, and without it to prove the attack."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.web.gradio_client import Served, event, file_data, join, listen, new_hash, output_of, upload

SECRET = "what alice scanned"


@pytest.mark.parametrize(
    "name", ["scan.txt", "Größe 42, page-1 (2).txt", "100%.txt", "a#b?c&d=e.txt", "..txt", "ページ.txt"]
)
def test_upload_runs_and_is_shown_when_it_is_ones_own(guarded: Served, name: str) -> None:
    alice, session_hash = guarded.client("a"), new_hash()
    path = upload(alice, SECRET, name)
    address = f"{guarded.url}/gradio_api/file={quote(path)}"
    assert join(alice, guarded, [file_data(path, url=address), "note", None], session_hash).is_success
    said, copied, _ = output_of(listen(alice, session_hash))
    assert said == f"alice@acme.example read {SECRET!r} note 0"
    assert alice.get(f"/gradio_api/file={quote(copied['path'])}").text == SECRET


def test_file_is_not_found_when_another_uploaded_it(guarded: Served, bare: Served) -> None:
    assert bare.client("b").get(f"/gradio_api/file={upload(bare.client('a'), SECRET)}").text == SECRET  # the attack
    path = upload(guarded.client("a"), "seen by alice alone")
    assert guarded.client("b").get(f"/gradio_api/file={path}").status_code == 404
    assert guarded.client("c").get(f"/gradio_api/file={path}").status_code == 404  # a member of her own tenant
    assert guarded.client(None).get(f"/gradio_api/file={path}").status_code == 401
    assert guarded.client("a").get(f"/gradio_api/file={path}").status_code == 200


def test_identical_bytes_are_each_uploaders_own_when_two_upload_them(guarded: Served) -> None:
    content = "the same letter"
    path = upload(guarded.client("a"), content)
    assert upload(guarded.client("b"), content) == path
    assert guarded.client("a").get(f"/gradio_api/file={path}").status_code == 200
    assert guarded.client("b").get(f"/gradio_api/file={path}").status_code == 200
    assert guarded.client("c").get(f"/gradio_api/file={path}").status_code == 404


@pytest.mark.parametrize("way", ["{}/../{name}", "/./{}", "/{}", "{}/", "{}%2f", "{}\\", "{}\n", "http://x/{}"])
def test_file_is_refused_when_its_path_is_written_otherwise(guarded: Served, way: str) -> None:
    path = upload(guarded.client("a"), "spelled")
    spelled = way.format(path, name="scan.txt")
    for token in ("a", "b"):
        answer = guarded.client(token).get(_raw(spelled))
        assert answer.status_code in (403, 404), (token, answer.text)


def _raw(path: str) -> str:
    return "/gradio_api/file=" + path.replace("%", "%25").replace("/../", "/%2e%2e/").replace("\n", "%0a").replace(
        "\\", "%5c"
    )


@pytest.mark.parametrize("path", ["/etc/passwd", "//etc/passwd", "/proc/self/environ", "/srv/../etc/passwd"])
def test_file_is_not_found_when_it_is_the_servers(guarded: Served, path: str) -> None:
    assert guarded.client("a").get(f"/gradio_api/file={path}").status_code == 404


def test_result_is_not_heard_when_the_session_hash_is_anothers(guarded: Served, bare: Served) -> None:
    assert SECRET in str(_overheard(bare))  # the attack
    assert _overheard(guarded) == [{"status": 403}]


def _overheard(served: Served) -> list[dict[str, Any]]:
    alice, bob, session_hash = served.client("a"), served.client("b"), new_hash()
    join(alice, served, [file_data(upload(alice, SECRET)), "note", None], session_hash)
    return listen(bob, session_hash)


def test_state_is_not_reached_when_the_session_hash_is_anothers(guarded: Served) -> None:
    alice, bob, session_hash = guarded.client("a"), guarded.client("b"), new_hash()
    join(alice, guarded, [None, "note", None], session_hash)
    assert join(bob, guarded, [None, "note", None], session_hash).status_code == 403
    tick = event(guarded, "tick", [], session_hash)
    assert bob.post("/gradio_api/run/tick", json=tick).status_code == 403
    server = {"data": ["x"], "component_id": 1, "fn_name": "shout", "session_hash": session_hash}
    assert bob.post("/gradio_api/component_server", json=server).status_code == 403
    with bob.stream("GET", f"/gradio_api/heartbeat/{session_hash}") as heartbeat:
        assert heartbeat.status_code == 403
    listen(alice, session_hash)


def test_event_is_not_cancelled_when_it_is_anothers(guarded: Served) -> None:
    alice, bob, hers, his = guarded.client("a"), guarded.client("b"), new_hash(), new_hash()
    event_id = join(alice, guarded, [None, "note", None], hers).json()["event_id"]
    for session_hash in (hers, his):
        body = {"event_id": event_id, "fn_index": guarded.fn_indices["echo"], "session_hash": session_hash}
        assert bob.post("/gradio_api/cancel", json=body).status_code == 404
    assert bob.post("/gradio_api/reset", json={"event_id": event_id}).status_code == 404
    assert output_of(listen(alice, hers))
    assert alice.post("/gradio_api/reset", json={"event_id": event_id}).status_code == 200
    own = {"event_id": event_id, "fn_index": guarded.fn_indices["echo"], "session_hash": hers}
    assert alice.post("/gradio_api/cancel", json=own).status_code == 200


@pytest.mark.parametrize(
    "wrap",
    [
        lambda path: file_data(path),
        lambda path: {"path": path},
        lambda path: file_data(path, orig_name="mine.txt", is_stream=True),
        lambda path: path,
        lambda path: f"  {path} ",
        lambda path: f"file://{path}",
        lambda path: path.replace("/", "/./"),
        lambda path: path.replace("/", "%2F"),
        lambda path: f"/gradio_api/file={path}",
        lambda path: [[{"deep": [file_data(path)]}]],
        lambda path: {"files": [file_data(path)], "text": ""},
        lambda path: {path: 1},
        lambda path: {"url": f"/gradio_api/file={path}", "meta": {"_type": "gradio.FileData"}},
    ],
)
def test_event_is_refused_when_its_data_names_anothers_file(guarded: Served, wrap: Any) -> None:
    path = upload(guarded.client("a"), "named in data")
    bob = guarded.client("b")
    given = wrap(path)
    assert join(bob, guarded, [given, "note", None], new_hash()).status_code == 404
    in_event = join(bob, guarded, [None, "", None], new_hash(), event_data={"value": given})
    assert in_event.status_code == 404
    body = event(guarded, "echo", [given, "", None], new_hash())
    assert bob.post("/gradio_api/run/echo", json=body).status_code == 404
    server = {"data": [given], "component_id": 1, "fn_name": "shout", "session_hash": new_hash()}
    assert bob.post("/gradio_api/component_server/", json=server).status_code == 404


def test_anothers_file_is_read_when_there_is_no_guard(bare: Served) -> None:
    path, bob, session_hash = upload(bare.client("a"), SECRET), bare.client("b"), new_hash()
    join(bob, bare, [file_data(path), "note", None], session_hash)
    assert SECRET in output_of(listen(bob, session_hash))[0]


@pytest.mark.parametrize(
    "remote",
    [
        file_data("http://169.254.169.254/latest/meta-data"),
        file_data("https://example.org/x.png"),
        file_data("//example.org/x.png"),
        file_data("ftp://example.org/x"),
    ],
)
def test_event_is_refused_when_a_file_is_at_another_address(guarded: Served, remote: dict[str, Any]) -> None:
    answer = join(guarded.client("a"), guarded, [remote, "", None], new_hash())
    assert (answer.status_code, answer.json()["code"]) == (422, "remote_file")


@pytest.mark.parametrize("url", ["http://example.org/gradio_api/file={}", "https://example.org/x", "javascript:x"])
def test_event_is_refused_when_the_address_of_ones_own_file_is_elsewhere(guarded: Served, url: str) -> None:
    alice = guarded.client("a")
    path = upload(alice, SECRET)
    answer = join(alice, guarded, [file_data(path, url=url.format(path)), "", None], new_hash())
    assert (answer.status_code, answer.json()["code"]) == (422, "remote_file")


def test_upload_progress_is_refused_when_the_upload_is_anothers(guarded: Served) -> None:
    alice, bob, upload_id = guarded.client("a"), guarded.client("b"), new_hash()
    files = {"files": ("private name.txt", b"x")}
    assert alice.post("/gradio_api/upload", params={"upload_id": upload_id}, files=files).status_code == 200
    assert bob.get("/gradio_api/upload_progress", params={"upload_id": upload_id}).status_code == 403
    assert bob.post("/gradio_api/upload", params={"upload_id": upload_id}, files=files).status_code == 403
    with alice.stream("GET", "/gradio_api/upload_progress", params={"upload_id": upload_id}) as progress:
        assert progress.status_code == 200
