"""Where request bodies lie before they are admitted: a folder for each request, gone when the request ends.

Bytes go to disk as they come and are counted as they come; a body that says or shows itself too large is refused
before the rest is read.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import anyio
from fastapi import Request
from starlette.concurrency import run_in_threadpool

from portal.documents.storage import storage_errors
from portal.errors import DocumentRefused

_STALE_SECONDS = 24 * 3600


@asynccontextmanager
async def request_folder(data_dir: Path) -> AsyncIterator[Path]:
    """A fresh folder (0700) under `data_dir`/incoming, removed with all it holds when the block ends.

    Raises Unavailable when it cannot be made.
    """
    folder = await run_in_threadpool(_new_folder, data_dir)
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):  # a request that is cancelled leaves nothing behind either
            await run_in_threadpool(shutil.rmtree, folder, ignore_errors=True)


def remove_stale_folders(data_dir: Path) -> None:
    """Removes what a killed process left behind; folders of running requests are younger than a day."""
    for folder in _incoming(data_dir).iterdir():
        with suppress(FileNotFoundError):  # another process may end its request just now
            if folder.stat().st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def refuse_large_body(request: Request, limit_bytes: int) -> None:
    """Refuses by Content-Length, before the first byte is read. Raises DocumentRefused (file_too_large)."""
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > limit_bytes:
        raise body_too_large(limit_bytes)


def body_too_large(limit_bytes: int) -> DocumentRefused:
    """The refusal of a whole body."""
    return DocumentRefused(
        f"The request is larger than the {_megabytes(limit_bytes)} that one request may have.",
        code="file_too_large",
        remedy="Send fewer or smaller files in one request.",
    )


class IncomingFile:
    """One upload on its way to disk. `byte_size` never passes the limit."""

    def __init__(self, path: Path, file_name: str, limit_bytes: int) -> None:
        self.path = path
        self.file_name = file_name
        self.byte_size = 0
        self._limit_bytes = limit_bytes
        with storage_errors():
            self._file: BinaryIO = path.open("xb")

    def write(self, chunk: bytes) -> None:
        """Appends. Raises DocumentRefused (file_too_large) and, when the disk is full, Unavailable."""
        self.byte_size += len(chunk)
        if self.byte_size > self._limit_bytes:
            raise DocumentRefused(
                f"{self.file_name} is larger than the {_megabytes(self._limit_bytes)} that a file may have.",
                code="file_too_large",
                remedy="Split the document, or scan it at a lower resolution.",
            )
        with storage_errors():
            self._file.write(chunk)

    def close(self) -> None:
        """Flushes; the file stays until its request's folder goes."""
        with storage_errors():
            self._file.close()


def _new_folder(data_dir: Path) -> Path:
    with storage_errors():
        return Path(tempfile.mkdtemp(prefix="request-", dir=_incoming(data_dir)))


def _incoming(data_dir: Path) -> Path:
    incoming = data_dir / "incoming"
    incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
    return incoming


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.4g} MiB"
