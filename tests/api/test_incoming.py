"""Uploads lie in a private folder for the length of their request, and what a killed process left is swept."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import Request

from portal.api.incoming import IncomingFile, remove_stale_folders, request_folder
from portal.api.multipart_form import read_form
from portal.errors import DocumentRefused
from portal.settings import IntakeSettings


def test_folder_is_private_and_gone_when_the_request_ends(tmp_path: Path) -> None:
    async def request() -> None:
        async with request_folder(tmp_path) as folder:
            assert folder.parent == tmp_path / "incoming"
            for place in (folder, folder.parent):
                assert stat.S_IMODE(place.stat().st_mode) == 0o700
            (folder / "0").write_bytes(b"x")

    asyncio.run(request())
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.mark.parametrize("reason", [KeyError, asyncio.CancelledError])
def test_folder_is_gone_when_the_request_fails(tmp_path: Path, reason: type[BaseException]) -> None:
    async def request() -> None:
        async with request_folder(tmp_path) as folder:
            (folder / "0").write_bytes(b"x")
            raise reason

    with pytest.raises(reason):
        asyncio.run(request())
    assert list((tmp_path / "incoming").iterdir()) == []


def test_event_loop_touches_no_file_when_a_form_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loops_thread = threading.get_ident()
    touched: list[str] = []

    def noting(function: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object, **options: object) -> object:
            if threading.get_ident() == loops_thread:
                touched.append(function.__name__)
            return function(*args, **options)

        return noted

    for place, name in ((tempfile, "mkdtemp"), (shutil, "rmtree"), (IncomingFile, "close"), (IncomingFile, "write")):
        monkeypatch.setattr(place, name, noting(getattr(place, name)))
    body = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\nx\r\n--b--\r\n'
    headers = [(b"content-type", b"multipart/form-data; boundary=b")]

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def read() -> bytes:
        async with request_folder(tmp_path) as folder:
            form = await read_form(
                Request({"type": "http", "headers": headers}, receive),
                folder,
                limits=IntakeSettings(),
                text_names=frozenset(),
            )
            return form.files[0].path.read_bytes()

    assert asyncio.run(read()) == b"x"
    assert touched == []


def test_only_folders_of_dead_requests_are_swept(tmp_path: Path) -> None:
    stale, fresh = (tmp_path / "incoming" / name for name in ("request-old", "request-new"))
    for folder in (stale, fresh):
        folder.mkdir(parents=True)
        (folder / "0").write_bytes(b"x")
    yesterday = time.time() - 25 * 3600
    os.utime(stale, (yesterday, yesterday))
    remove_stale_folders(tmp_path)
    assert list((tmp_path / "incoming").iterdir()) == [fresh]


def test_file_never_passes_its_limit(tmp_path: Path) -> None:
    file = IncomingFile(tmp_path / "0", "scan.png", 10)
    file.write(bytes(10))
    with pytest.raises(DocumentRefused):
        file.write(b"x")
    file.close()
    assert file.path.stat().st_size == 10
