"""What a job's page holds while it is worked on: a place at its engine's gate, and a slot while the engine reads it.

A page that is read and only waits for a server beside the engine holds neither: others are read meanwhile. How many
do so at once is bounded by not beginning more of the kind (`Gate.held_back`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portal.domain import Task
from portal.jobs.gate import Gate


class Place:
    """The place of one page, taken at `Gate.next_page`. Place and slot are given back once each, whoever asks."""

    def __init__(self, gate: Gate, task: Task) -> None:
        self._gate = gate
        self._task = task
        self._has_place, self._has_slot, self._is_beside = True, False, False

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for one of the engine's slots; it is held until the block ends, or the page goes beside."""
        await self._gate.slots.acquire()
        self._has_slot = True
        try:
            yield
        finally:
            self._leave_slot()

    def go_beside(self) -> None:
        """The page is read, and asks a server beside the engine: place and slot are another's."""
        if self._is_beside or not self._has_place:
            return
        self._is_beside = True
        self._gate.beside[self._task] += 1
        self._leave_slot()
        self._leave_place()

    def end(self) -> None:
        """The page is over, or put back."""
        if self._is_beside:
            self._is_beside = False
            self._gate.beside[self._task] -= 1
        self._leave_slot()
        self._leave_place()

    def _leave_slot(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._gate.slots.release()

    def _leave_place(self) -> None:
        if self._has_place:
            self._has_place = False
            self._gate.end()
