"""Uploads lie in a private folder for the length of their request, and what a killed process left is swept."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from portal.api.incoming import IncomingFile, remove_stale_folders, request_folder
from portal.errors import DocumentRefused


def test_folder_is_private_and_gone_when_the_request_ends(tmp_path: Path) -> None:
    with request_folder(tmp_path) as folder:
        assert folder.parent == tmp_path / "incoming"
        for place in (folder, folder.parent):
            assert stat.S_IMODE(place.stat().st_mode) == 0o700
        (folder / "0").write_bytes(b"x")
    assert list((tmp_path / "incoming").iterdir()) == []


def test_folder_is_gone_when_the_request_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), request_folder(tmp_path) as folder:
        (folder / "0").write_bytes(b"x")
        raise KeyError
    assert list((tmp_path / "incoming").iterdir()) == []


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
