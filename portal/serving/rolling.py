"""Replacing instances one by one; a reading one is stopped only while a weight store stands for its successor.

Also who must be replaced when a store was lost: whoever reads without a lease of the one that stands. Where a
replacement did not come to read, the others are let be until it does, or an operator asks for more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from portal.serving.configuration import FleetConfiguration
from portal.serving.instance_part import InstancePart
from portal.serving.parts import PartState
from portal.serving.store_part import StorePart

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1


class RollingRestart:
    """Restarts of a fleet's instances. One run at a time: its caller sees to that."""

    def __init__(self, fleet: FleetConfiguration, store: StorePart, instances: Sequence[InstancePart]) -> None:
        self._patience, self._store, self._instances = fleet.patience, store, instances
        self._stopped_at: InstancePart | None = None
        self._let_be: list[InstancePart] = []

    async def run(self, chosen: Sequence[InstancePart]) -> None:
        """Ends at the first that does not read again, so that the others go on."""
        self._stopped_at = None
        for instance in chosen:
            if not await self._store_stands():
                _log.error("the rolling restart stops before %s: no weight store stands", instance.name)
                return
            if not await self._is_replaced(instance):
                self._stopped_at = instance
                _log.error("the rolling restart stops: %s is %s", instance.name, instance.state)
                return

    async def due(self) -> list[InstancePart]:
        """Those to be replaced unasked: the stale ones, unless the last run's replacement has not come to read.

        What hindered that one would most likely hinder them too, and they do read.
        """
        stale, hindering = await self.stale(), self.stopped_at
        if hindering is None:
            self._let_be = []
            return stale
        if stale and stale != self._let_be:
            names = ", ".join(one.name for one in stale)
            _log.warning("left with a former store's memory until %s reads: %s", hindering.name, names)
        self._let_be = stale
        return []

    @property
    def stopped_at(self) -> InstancePart | None:
        """The instance at which the last run ended, while it does not read; None when nothing hinders another."""
        return None if self._stopped_at is None or self._stopped_at.is_reading else self._stopped_at

    async def stale(self) -> list[InstancePart]:
        """Those that read and hold no lease of the store that stands: their memory is that of one before."""
        reading = {one: one.starts for one in self._instances if one.is_reading}
        leases = await self._store.reader_names()
        if leases is None:
            return []
        return [one for one, starts in reading.items() if one.name not in leases and one.starts == starts]

    async def _store_stands(self) -> bool:
        """Gives a store that starts its time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience.start_seconds
        while await self._store.reader_names() is None:
            if self._store.state is PartState.FAILED or loop.time() > deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    async def _is_replaced(self, instance: InstancePart) -> bool:
        """False when its new start failed, when it was drained meanwhile, or when the store was lost meanwhile."""
        instance.order("restart")
        failures = instance.failures.total
        while not instance.is_reading:
            if instance.is_ordered:  # what befalls it before it obeys is no matter of the new start
                failures = instance.failures.total
            elif instance.failures.total > failures or instance.state is PartState.STOPPED:
                return False
            if self._waits_for_store(instance):
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    def _waits_for_store(self, instance: InstancePart) -> bool:
        """Itself, or the one whose turn it is. Nobody knows how long, and others may be restarted meanwhile."""
        return instance.state is PartState.WAITING and not self._store.ready.is_set()
