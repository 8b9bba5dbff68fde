"""Another's path is found wherever and however it is written; one's own values pass as they are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.errors import InvalidRequest, NotFound, PortalError
from portal.web.event_files import EventFiles

FOLDER = Path("/srv/portal/uploads")
MINE, ANOTHERS = f"{FOLDER}/aaaa/mine.txt", f"{FOLDER}/bbbb/theirs.txt"
FILES = EventFiles(FOLDER, is_mine=lambda path: path == MINE, is_own_url=lambda url: url.startswith("/"))

WAYS_TO_WRITE = st.sampled_from(
    [
        lambda path: path,
        lambda path: {"path": path},
        lambda path: {"path": path, "meta": {"_type": "gradio.FileData"}},
        lambda path: {"path": None, "url": f"/gradio_api/file={path}"},
        lambda path: {"meta": {}, "url": f"/gradio_api/file={path.replace('/', '%2f')}"},
        lambda path: path.replace("/", "//"),
        lambda path: path.replace("/bbbb", "/../uploads/./bbbb"),
        lambda path: f"/proc/self/root{path}",
        lambda path: "".join(f"%{ord(c):02x}" for c in path),
        lambda path: f"file://{path}",
        lambda path: {path: None},
        lambda path: {"path": MINE + "/../../bbbb/theirs.txt"},
        lambda path: {"path": f"{path}\0"},
        lambda path: "x" * 5000 + path,
    ]
)


def nested(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The leaf somewhere in a tree of harmless values."""
    harmless = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(MINE)
    return st.recursive(
        leaf,
        lambda inner: (
            st.tuples(st.lists(harmless, max_size=3), inner).map(lambda pair: [*pair[0], pair[1]])
            | st.dictionaries(st.text(max_size=5), harmless, max_size=3).flatmap(
                lambda rest: inner.map(lambda value: {**rest, "deeper": value})
            )
        ),
        max_leaves=4,
    )


@given(nested(WAYS_TO_WRITE.map(lambda write: write(ANOTHERS))))
def test_anothers_path_is_refused_wherever_it_stands(value: Any) -> None:
    with pytest.raises(PortalError):
        FILES.check(value)


@given(
    nested(
        st.sampled_from(
            [
                MINE,
                {"path": MINE, "url": f"/gradio_api/file={MINE}", "meta": {"_type": "gradio.FileData"}},
                {"path": MINE, "url": None, "orig_name": "../../etc/passwd"},
                {"path": None, "url": "data:image/png;base64,AAAA"},
                "read /srv/portal/readme and the uploads folder, 100% //",
                {"url": "https://example.org", "title": "a link in a value that is no file"},
            ]
        )
    )
)
def test_value_passes_when_it_names_only_ones_own_files(value: Any) -> None:
    FILES.check(value)


@pytest.mark.parametrize("path", [7, ["/etc/passwd"], {"path": "/etc/passwd"}, "", "/etc/passwd", "mine.txt"])
def test_file_is_refused_when_its_path_is_no_upload(path: Any) -> None:
    with pytest.raises((InvalidRequest, NotFound)):
        FILES.check([{"path": path}])


def test_value_of_any_depth_is_checked() -> None:
    value: Any = {"path": ANOTHERS}
    for _ in range(5000):
        value = [value]
    with pytest.raises(NotFound):
        FILES.check(value)


@pytest.mark.parametrize("text", ["/", "%/", "uploads/", "/srv/portal/uploads"[:-1]])
def test_check_is_short_when_a_call_holds_many_values(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(InvalidRequest):
        FILES.check([text] * 900_000)
    assert time.perf_counter() - started < 3


@pytest.mark.parametrize(
    "value",
    [
        ["%e2%/" * 800] * 5000,
        ["%41%e2"] * 20_000,
        ["%/uploads/"] * 20_000,
        [0] * 1_000_000,
        [[]] * 1_000_000,
        {str(number): None for number in range(200_000)},
    ],
    ids=["long texts", "escapes", "folder", "numbers", "lists", "keys"],
)
def test_event_loop_is_held_for_little_when_a_call_holds_much(value: Any) -> None:
    started = time.process_time()
    with pytest.raises(InvalidRequest):
        FILES.check(value)
    assert time.process_time() - started < 0.15


def test_full_upload_passes_when_its_names_are_long() -> None:
    mine = f"{FOLDER}/{'a' * 64}/{'ä' * 100}.pdf"
    files = EventFiles(FOLDER, is_mine=lambda path: path == mine, is_own_url=lambda url: url.startswith("/"))
    files.check([{"path": mine, "url": f"/gradio_api/file={quote(mine)}", "orig_name": "x"} for _ in range(100)])


def test_anothers_path_is_refused_when_every_slash_is_encoded() -> None:
    with pytest.raises(NotFound):
        FILES.check("%2fsrv%2fportal%2f%2fuploads%2fbbbb%2ftheirs.txt")
