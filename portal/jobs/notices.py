"""In-process signals: new work is queued, a job moved. Hints only; the truth is in the database.

Who waits also looks by himself every `LOOK_SECONDS`, since another process may have moved the job.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

LOOK_SECONDS = 1.0


class Listener:
    """Remembers announcements made since the last `next`, so none is missed between a look and a wait."""

    def __init__(self, job_id: str | None) -> None:
        self._job_id = job_id
        self._event = asyncio.Event()

    def hear(self, job_id: str) -> None:
        """Called on the event loop only."""
        if self._job_id in (None, job_id):
            self._event.set()

    async def next(self, seconds: float = LOOK_SECONDS) -> None:
        """Returns at the next announcement not yet heard, or after `seconds`."""
        # Not wait_for: on Python 3.11 it swallows a cancellation that comes in the tick of the event.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class Notices:
    """Wakes listening coroutines. `announce` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[Listener] = set()

    @contextlib.contextmanager
    def listening(self, job_id: str | None = None) -> Iterator[Listener]:
        """A listener of the running event loop, to one job or to all, for the length of the block."""
        self._loop = asyncio.get_running_loop()
        listener = Listener(job_id)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def announce(self, job_id: str) -> None:
        """Says that the job, or what of it waits, changed. A no-op where nobody listens."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, job_id)

    def _tell(self, job_id: str) -> None:
        for listener in self._listeners:
            listener.hear(job_id)
