"""Where the bytes of documents and their page images lie: one folder for each tenant, one in it for each document.

Knows paths and nothing of what is in the files. Files are 0600, folders 0700, every write is whole or absent.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from portal.errors import NotFound, Unavailable

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_SCRATCH = re.compile(r"[0-9]{4,}\.([0-9a-f]+)\.png", re.ASCII)
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Storage:
    """Blobs below `<data_dir>/tenants/<tenant_id>/documents/<document_id>/`.

    Ids go into paths only after a strict pattern: any other one is NotFound, like a document that is not there.
    """

    def __init__(self, data_dir: Path) -> None:
        self._root = data_dir / "tenants"

    def source_path(self, tenant_id: str, document_id: str) -> Path:
        """The upload as it came."""
        return self._folder(tenant_id, document_id) / "source"

    def page_image_path(self, tenant_id: str, document_id: str, number: int) -> Path:
        """The PNG that engines read, page `number` from 1: scratch, made again at will."""
        return self._folder(tenant_id, document_id) / "pages" / f"{int(number):04d}.png"

    def scratch_path(self, tenant_id: str, document_id: str, number: int, *, mark: str) -> Path:
        """That PNG for as long as somebody works on it; `mark` (hexadecimal) is known to be in use meanwhile."""
        return self.page_image_path(tenant_id, document_id, number).with_suffix(f".{mark}.png")

    def page_view_path(self, tenant_id: str, document_id: str, number: int) -> Path:
        """The JPEG that people are shown."""
        return self._folder(tenant_id, document_id) / "pages" / f"{int(number):04d}.jpg"

    def store(self, tenant_id: str, document_id: str, upload: Path) -> None:
        """Copies the upload in (its owner removes it: Gradio shares one path between identical uploads).

        Raises Unavailable (codes storage_full, storage_unavailable), then leaves nothing behind.
        """
        target = self.source_path(tenant_id, document_id)
        try:
            with storage_errors():
                _make_folders(target.parent / "pages")
                with upload.open("rb") as source, replacing(target) as part, part.open("r+b") as copy:
                    shutil.copyfileobj(source, copy, 2**20)
        except Unavailable:
            shutil.rmtree(target.parent, ignore_errors=True)
            raise

    def take_over(self, source: Path, target: Path) -> None:
        """Makes a file of another document also this one's: one copy on disk, which stays until both are deleted.

        Whole or absent, whatever interrupts it. Nothing happens when the source is gone or the target is there. Raises
        Unavailable.
        """
        with storage_errors(), suppress(FileNotFoundError, FileExistsError):
            try:
                target.hardlink_to(source)
            except (PermissionError, NotImplementedError):  # a file system without hard links
                with source.open("rb") as given, replacing(target) as part, part.open("r+b") as copy:
                    shutil.copyfileobj(given, copy, 2**20)

    def delete_document(self, tenant_id: str, document_id: str) -> None:
        """Removes the document and its pages; nothing happens when it is gone already.

        The folder is renamed first, so a page that is being rendered cannot land in it any more.
        """
        folder = self._folder(tenant_id, document_id)
        doomed = folder.with_name(f".{folder.name}.deleted")
        with storage_errors():
            _remove(doomed)  # of a deletion that was interrupted
            with suppress(FileNotFoundError):
                folder.rename(doomed)
            _remove(doomed)

    def delete_tenant(self, tenant_id: str) -> None:
        """Removes all that the tenant stored; nothing happens when it is gone already.

        Each document's folder is renamed first, so a page that is being rendered cannot land in it any more.
        """
        root = self._root / _checked(tenant_id)
        documents = root / "documents"
        with storage_errors():
            for folder in sorted(documents.iterdir()) if documents.is_dir() else ():
                if not folder.name.startswith("."):
                    folder = folder.rename(folder.with_name(f".{folder.name}.deleted"))
                _remove(folder)
            _remove(root)

    def sweep(self, known: Callable[[str, list[str]], set[str]], *, older_than_seconds: float) -> int:
        """Removes folders of documents that nobody knows, and half-written files that a dead process left.

        `known(tenant_id, document_ids)` gives those that have a row. Younger ones are left alone: their row may be
        on its way. Gives the number of documents removed.
        """
        swept = 0
        oldest = time.time() - older_than_seconds
        for tenant in sorted(self._root.glob("*/documents")):
            old = [folder for folder in tenant.iterdir() if _is_older(folder, oldest)]
            names = [folder.name for folder in old if not folder.name.startswith(".")]
            rows = known(tenant.parent.name, names)
            for folder in old:
                if folder.name not in rows:
                    _remove(folder)
                    swept += 1
            for part in tenant.glob("*/**/.*.part"):
                if _is_older(part, oldest):
                    part.unlink(missing_ok=True)
        return swept

    def sweep_scratch(self, marks_in_use: Callable[[], set[str]]) -> int:
        """Removes the scratch of whoever died over it, at once; gives the number of files.

        `marks_in_use` is asked after the files are listed: a mark is in use before its file is made.
        """
        paths = self._root.glob("*/documents/*/pages/*.*.png")
        found = [(path, match) for path in paths if (match := _SCRATCH.fullmatch(path.name))]
        in_use = marks_in_use() if found else set()
        strays = [path for path, match in found if match[1] not in in_use]
        for path in strays:
            path.unlink(missing_ok=True)
        return len(strays)

    def check(self) -> None:
        """Proves that files can be written here; raises Unavailable where not."""
        probe = self._root / ".probe"
        with storage_errors():
            _make_folders(self._root)
            with replacing(probe) as part:
                part.write_bytes(b"probe")
            probe.unlink(missing_ok=True)

    def _folder(self, tenant_id: str, document_id: str) -> Path:
        return self._root / _checked(tenant_id) / "documents" / _checked(document_id)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives an empty 0600 file in the target's folder to write to; it becomes the target, on disk, if all went well.

    Whatever interrupts the block leaves the old target (or none) and no other file. Raises OSError.
    """
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield part
        _sync(part)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # Windows and some network file systems cannot; the file itself is safe
        _sync(target.parent)


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turns an OSError of the block into Unavailable, telling a full disk from the rest, naming no path."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Unavailable(
                "The portal's disk is full.",
                code="storage_full",
                remedy="Nothing was stored or charged. Tell the operator to free space in the data folder.",
            ) from error
        raise Unavailable(
            f"The portal's storage does not work: {os.strerror(error.errno) if error.errno else 'I/O error'}.",
            code="storage_unavailable",
            remedy="Tell the operator to check that the data folder is there and the portal may write to it.",
        ) from error


def _checked(identifier: str) -> str:
    if _ID.fullmatch(identifier) is None:
        raise NotFound("There is no such document.")
    return identifier


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _is_older(path: Path, moment: float) -> bool:
    with suppress(FileNotFoundError):  # deleted since it was listed
        return path.stat().st_mtime < moment
    return False


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
