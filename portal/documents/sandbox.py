"""The child processes in which untrusted bytes are opened, seen from the portal's side.

Whatever a file does to its child (kill it, hang it, eat memory) ends as DocumentRefused for that file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from portal.children import ChildFailure, ChildLimits, ChildPool
from portal.documents import decoding, refusals
from portal.documents.decoding import RenderedPage
from portal.documents.storage import replacing, storage_errors
from portal.domain import Inspection
from portal.errors import Unavailable
from portal.settings import IntakeSettings

Result = TypeVar("Result")

WORKERS = 2
_RENDER_WALL_PER_CPU = 2  # a busy machine may slow a good page, never refuse it


class Sandbox:
    """Two warm children, shared by all threads. A call waits for a free one."""

    def __init__(self, limits: IntakeSettings) -> None:
        self._limits = limits
        child = ChildLimits(memory_bytes=limits.sandbox_memory_bytes, cpu_seconds=limits.sandbox_seconds)
        self._pool = ChildPool(WORKERS, child)

    def inspect(self, path: Path) -> Inspection:
        """Format and page sizes of a file, from its content. Raises DocumentRefused, Unavailable."""
        limits = self._limits
        arguments = path, limits.max_document_pages, limits.max_page_pixels
        with storage_errors():
            return self._run(decoding.inspect, *arguments, wall_seconds=limits.sandbox_seconds)

    def render(self, path: Path, media_type: str, number: int, target: Path) -> RenderedPage:
        """Writes page `number` (from 1) as 8-bit RGB PNG to `target`, whole or not at all.

        `media_type` is what `inspect` said. Raises DocumentRefused for this page, Unavailable.
        """
        wall_seconds = self._limits.sandbox_seconds * _RENDER_WALL_PER_CPU
        with storage_errors(), replacing(target) as part:
            arguments = path, media_type, number, self._limits.max_page_pixels, part
            return self._run(decoding.render, *arguments, wall_seconds=wall_seconds)

    def close(self) -> None:
        """Kills the children; calls under way raise Unavailable."""
        self._pool.close()

    def _run(self, function: Callable[..., Result], *args: Any, wall_seconds: float) -> Result:
        try:
            return self._pool.run(function, *args, wall_seconds=wall_seconds)
        except ChildFailure as failure:
            if failure.reason == "closed":
                raise Unavailable("The portal is stopping.") from failure
            raise refusals.unreadable(failure.reason) from failure
