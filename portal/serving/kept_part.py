"""What store and router have in common: one process, started again whenever it ends, until that has no sense any more.

In a crash loop it rests as `failed` until an operator asks for a new start.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress

from portal.serving.configuration import FleetConfiguration
from portal.serving.failures import Failures
from portal.serving.parts import Ended, PartState
from portal.serving.process_groups import ProcessGroup

_log = logging.getLogger(__name__)


class KeptPart(ABC):
    """`title` is what people call it. `last_error` is how it last ended, in words."""

    title: str

    def __init__(self, fleet: FleetConfiguration) -> None:
        self._fleet = fleet
        self._group: ProcessGroup | None = None
        self.failures = Failures(fleet.patience)
        self.state, self.last_error = PartState.WAITING, ""
        self._revived = asyncio.Event()

    async def keep(self) -> None:
        """Starts it again whenever it ends, until cancelled."""
        while True:
            try:
                await self._start()
                await self._watch()
            except Ended as ended:
                self.last_error = ended.reason
                _log.error("%s %s", self.title, ended.reason)
            self.state = PartState.BACKOFF
            await self._end()
            self.failures.add()
            await self._rest()

    def revive(self) -> None:
        """Forgets its failures, and ends the rest after the last one."""
        self.failures.forget()
        if self.state is PartState.FAILED:
            self.state = PartState.WAITING
        self._revived.set()

    async def stop(self) -> None:
        """Ends it, after the grace."""
        await self._end()
        self.state = PartState.STOPPED

    @property
    def pid(self) -> int | None:
        """Its process, when there is one."""
        return self._group.pid if self._group else None

    @abstractmethod
    async def _start(self) -> None:
        """Returns when it is ready. Raises Ended."""

    @abstractmethod
    async def _watch(self) -> None:
        """Raises Ended when it is gone or hangs."""

    async def _end(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await group.stop(self._fleet.patience.stop_seconds)

    async def _rest(self) -> None:
        self._revived.clear()
        if self.failures.is_crash_loop:
            self.state = PartState.FAILED
            _log.error("%s failed %d times and is not started again", self.title, self.failures.total)
            await self._revived.wait()
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._revived.wait(), self.failures.backoff_seconds)
