"""Blobs are private, whole or absent, and no id leads out of their folder."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from portal.documents.storage import Storage, replacing
from portal.errors import NotFound, Unavailable

TENANT, DOCUMENT = "ten_0123456789abcdef01234567", "doc_0123456789abcdef01234567"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "data")


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    path = tmp_path / "upload"
    path.write_bytes(b"x" * 3_000_000)
    return path


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@contextmanager
def _files_no_larger_than(size_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_bytes_and_rights_are_right_when_stored(storage: Storage, upload: Path, tmp_path: Path) -> None:
    storage.store(TENANT, DOCUMENT, upload)
    source = storage.source_path(TENANT, DOCUMENT)
    assert source.read_bytes() == upload.read_bytes()
    assert _files(tmp_path / "data") == [source]
    assert stat.S_IMODE(source.stat().st_mode) == 0o600
    folders = [path for path in (tmp_path / "data").rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in [tmp_path / "data", *folders]} == {0o700}


def test_pages_lie_beside_the_source(storage: Storage, upload: Path) -> None:
    storage.store(TENANT, DOCUMENT, upload)
    pages = storage.source_path(TENANT, DOCUMENT).parent / "pages"
    assert storage.page_image_path(TENANT, DOCUMENT, 7) == pages / "0007.png"
    assert storage.page_view_path(TENANT, DOCUMENT, 12345) == pages / "12345.jpg"
    assert pages.is_dir()


@pytest.mark.parametrize("bad", ["", "..", "../x", "a/b", "a\\b", "a\0", "a\n", ".a", "-a", "é", "a.b", "a" * 41])
def test_id_is_not_found_when_it_is_no_id(storage: Storage, upload: Path, bad: str) -> None:
    for tenant_id, document_id in ((bad, DOCUMENT), (TENANT, bad)):
        with pytest.raises(NotFound):
            storage.source_path(tenant_id, document_id)
        with pytest.raises(NotFound):
            storage.store(tenant_id, document_id, upload)
        with pytest.raises(NotFound):
            storage.delete_document(tenant_id, document_id)


def test_everything_of_one_document_goes_when_it_is_deleted(storage: Storage, upload: Path) -> None:
    other = "doc_other"
    for document_id in (DOCUMENT, other):
        storage.store(TENANT, document_id, upload)
        storage.page_view_path(TENANT, document_id, 1).write_bytes(b"view")
    storage.delete_document(TENANT, DOCUMENT)
    storage.delete_document(TENANT, DOCUMENT)
    documents = storage.source_path(TENANT, other).parents[1]
    assert [path.name for path in documents.iterdir()] == [other]
    assert len(_files(documents)) == 2


def test_deletion_is_finished_when_one_was_interrupted(storage: Storage, upload: Path) -> None:
    storage.store(TENANT, DOCUMENT, upload)
    folder = storage.source_path(TENANT, DOCUMENT).parent
    folder.rename(folder.with_name(f".{DOCUMENT}.deleted"))
    storage.delete_document(TENANT, DOCUMENT)
    assert list(folder.parent.iterdir()) == []


def test_nothing_is_left_when_the_file_does_not_fit(storage: Storage, upload: Path, tmp_path: Path) -> None:
    with _files_no_larger_than(1_000_000), pytest.raises(Unavailable) as refusal:
        storage.store(TENANT, DOCUMENT, upload)
    assert refusal.value.code == "storage_full"
    assert "space" in refusal.value.remedy
    assert _files(tmp_path / "data") == []
    assert not storage.source_path(TENANT, DOCUMENT).parent.exists()
    storage.store(TENANT, DOCUMENT, upload)


def test_nothing_is_left_when_the_disk_fills_at_the_flush(
    storage: Storage, upload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable) as refusal:
        storage.store(TENANT, DOCUMENT, upload)
    assert refusal.value.code == "storage_full"
    assert str(tmp_path) not in refusal.value.message + refusal.value.remedy
    assert _files(tmp_path / "data") == []


def _interrupted_write(target: Path) -> None:
    with replacing(target) as part:
        part.write_bytes(b"half")
        raise KeyboardInterrupt


def test_old_content_stays_when_a_write_is_interrupted(tmp_path: Path) -> None:
    target = tmp_path / "page.png"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        _interrupted_write(target)
    assert [path.read_bytes() for path in _files(tmp_path)] == [b"old"]


def test_check_passes_and_leaves_nothing_when_writable(storage: Storage, tmp_path: Path) -> None:
    storage.check()
    assert _files(tmp_path / "data") == []


def test_check_fails_when_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, not a folder")
    with pytest.raises(Unavailable) as refusal:
        Storage(tmp_path / "data").check()
    assert refusal.value.code == "storage_unavailable"
