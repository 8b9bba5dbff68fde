"""The child processes in which untrusted bytes are opened, seen from the portal's side.

Whatever a file does to its child (kill it, hang it, eat memory) ends as DocumentRefused for that file. Uploads are
opened in other children than pages are drawn in, so hostile uploads delay no page that was accepted before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from portal.children import ChildFailure, ChildLimits, ChildPool
from portal.documents import decoding, refusals
from portal.documents.decoding import RenderedPage
from portal.documents.storage import replacing, storage_errors
from portal.documents.turns import TurnLimits, Turns
from portal.domain import Inspection
from portal.errors import Unavailable
from portal.settings import IntakeSettings

Result = TypeVar("Result")

PAGE_CHILDREN = 2
# Waiting holds a thread that the edges share (240, see app.py): at most 164 of them are in here, 102 of one owner,
# so that a hundred uploads sent at once are taken and the rest of the portal still answers.
INTAKE_TURNS = TurnLimits(places=4, places_of_owner=2, waiting=160, waiting_of_owner=100, wait_seconds=15)
_INSPECT_SECONDS = 10  # headers only: a file that needs more is hostile
_RENDER_WALL_PER_CPU = 2  # a busy machine may slow a good page, never refuse it


class Sandbox:
    """Warm children, shared by all threads: four that open uploads, two that draw pages. They start when needed."""

    def __init__(self, limits: IntakeSettings) -> None:
        self._limits = limits
        self._inspect_seconds = min(_INSPECT_SECONDS, limits.sandbox_seconds)
        self._intake = ChildPool(INTAKE_TURNS.places, self._child(self._inspect_seconds))
        self._turns = Turns(INTAKE_TURNS)
        self._pages = ChildPool(PAGE_CHILDREN, self._child(limits.sandbox_seconds))

    def inspect(self, path: Path, *, owner: str) -> Inspection:
        """Format and page sizes of a file, from its content.

        `owner` (a tenant) has at most half of the children. Waits for a few seconds at most. Raises DocumentRefused,
        Busy, Unavailable.
        """
        arguments = path, self._limits.max_document_pages, self._limits.max_page_pixels
        with storage_errors(), self._turns.turn(owner):
            return _run(self._intake, decoding.inspect, *arguments, wall_seconds=self._inspect_seconds)

    def render(self, path: Path, media_type: str, number: int, target: Path) -> RenderedPage:
        """Writes page `number` (from 1) as 8-bit RGB PNG to `target`, whole or not at all; waits for a free child.

        `media_type` is what `inspect` said. Raises DocumentRefused for this page, Unavailable.
        """
        with storage_errors(), replacing(target) as part:
            arguments = path, media_type, number, self._limits.max_page_pixels, part
            return _run(self._pages, decoding.render, *arguments, wall_seconds=self._page_wall_seconds)

    def write_view(self, image: Path, rotation_degrees: int, target: Path) -> None:
        """Writes a page image of ours as JPEG to `target`, turned clockwise; waits for a free child.

        Raises Unavailable, also when the child does not survive: these bytes are our own.
        """
        try:
            with storage_errors(), replacing(target) as part:
                arguments = image, rotation_degrees, part
                self._pages.run(decoding.write_view, *arguments, wall_seconds=self._page_wall_seconds)
        except ChildFailure as failure:
            raise Unavailable("The page's image could not be made.") from failure

    def close(self) -> None:
        """Kills the children; calls under way raise Unavailable."""
        self._intake.close()
        self._pages.close()

    @property
    def _page_wall_seconds(self) -> int:
        return self._limits.sandbox_seconds * _RENDER_WALL_PER_CPU

    def _child(self, cpu_seconds: int) -> ChildLimits:
        return ChildLimits(memory_bytes=self._limits.sandbox_memory_bytes, cpu_seconds=cpu_seconds)


def _run(pool: ChildPool, function: Callable[..., Result], *args: Any, wall_seconds: float) -> Result:
    try:
        return pool.run(function, *args, wall_seconds=wall_seconds)
    except ChildFailure as failure:
        if failure.reason == "closed":
            raise Unavailable("The portal is stopping.") from failure
        raise refusals.unreadable(failure.reason) from failure
