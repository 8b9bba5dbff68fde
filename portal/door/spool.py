"""Where the image of a request lies while it waits: small ones in memory, larger ones in a nameless file.

All of them together may not pass a budget of bytes. What a killed process held is gone with it: the files have no name.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from portal.documents.storage import storage_errors
from portal.errors import Busy, DocumentRefused

MAX_IMAGE_BYTES = 25 * 2**20
_MAX_SPOOLED_BYTES = 512 * 2**20
_IN_MEMORY_BYTES = 512 * 2**10
_PIECE_BYTES = 3 * 64 * 2**10  # a multiple of 3: its base64 has no padding


class Spool:
    """The images of all requests under way; their bytes are counted, on disk and in memory alike."""

    def __init__(self, folder: Path, *, budget_bytes: int = _MAX_SPOOLED_BYTES) -> None:
        self.folder = folder
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._lock = Lock()

    def image(self, limit_bytes: int) -> SpooledImage:
        """A place for one image of at most so many bytes."""
        return SpooledImage(self, min(limit_bytes, MAX_IMAGE_BYTES))

    def take(self, size_bytes: int) -> None:
        """Counts bytes that come. Raises Busy when they would be too many."""
        with self._lock:
            if self.used_bytes + size_bytes > self.budget_bytes:
                raise Busy(
                    "The images of the requests that wait are as large as they may be together.",
                    retry_after_seconds=5,
                    remedy="Try again after the time in Retry-After; nothing was charged.",
                )
            self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Counts bytes that went."""
        with self._lock:
            self.used_bytes -= size_bytes


class SpooledImage:
    """One image's bytes. Whoever made it calls `discard` in the end, whatever came of it; twice is harmless."""

    def __init__(self, spool: Spool, limit_bytes: int) -> None:
        self.byte_size = 0
        self._spool = spool
        self._limit_bytes = limit_bytes
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            _IN_MEMORY_BYTES, dir=str(spool.folder)
        )

    @property
    def is_in_memory(self) -> bool:
        """True where reading it touches no disk."""
        return self.byte_size <= _IN_MEMORY_BYTES

    @property
    def encoded_size(self) -> int:
        """Bytes of its base64."""
        return (self.byte_size + 2) // 3 * 4

    def write(self, chunk: bytes) -> None:
        """Appends. Raises DocumentRefused (file_too_large), Busy past the budget, and Unavailable."""
        if self.byte_size + len(chunk) > self._limit_bytes:
            raise DocumentRefused(
                f"The image is larger than the {self._limit_bytes / 2**20:.4g} MiB that one may have here.",
                code="file_too_large",
                remedy="Send it as JPEG, or scanned at a lower resolution; POST /v1/jobs takes larger files.",
            )
        self._spool.take(len(chunk))
        self.byte_size += len(chunk)
        with storage_errors():
            self._opened.write(chunk)

    def close(self) -> None:
        """All bytes have come; they stay until `discard`."""

    def read(self, at: int, size_bytes: int) -> bytes:
        """Bytes from the place `at` on; fewer where the image ends."""
        with storage_errors():
            self._opened.seek(at)
            return self._opened.read(size_bytes)

    def encoded(self) -> Iterator[bytes]:
        """Its base64, in pieces."""
        for start in range(0, self.byte_size, _PIECE_BYTES):
            yield base64.b64encode(self.read(start, _PIECE_BYTES))

    def discard(self) -> None:
        """Frees the bytes."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            self._spool.give_back(self.byte_size)

    @property
    def _opened(self) -> tempfile.SpooledTemporaryFile[bytes]:
        if self._file is None:
            raise ValueError("the image was discarded")
        return self._file
