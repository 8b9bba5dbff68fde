"""The weight store under supervision: started, asked whether it answers, published anew when it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from portal.serving.commands import environment, store_command
from portal.serving.configuration import FleetConfiguration
from portal.serving.failures import Failures
from portal.serving.parts import Ended, PartState, death
from portal.serving.process_groups import ProcessGroup
from portal.serving.shared_weights import client
from portal.serving.shared_weights.faults import SharedWeightsError

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0


class StorePart:
    """Keeps one store. `ready` is set while it stands; `generation` counts the stores there have been."""

    def __init__(self, fleet: FleetConfiguration) -> None:
        self._fleet = fleet
        self._group: ProcessGroup | None = None
        self.failures = Failures(fleet.patience)
        self.ready = asyncio.Event()
        self.state, self.last_error, self.generation = PartState.WAITING, "", 0
        self.answer: dict[str, Any] = {}

    async def keep(self) -> None:
        """Starts it again whenever it ends, until cancelled or in a crash loop."""
        while not self.failures.is_crash_loop:
            try:
                await self._start()
                await self._watch()
            except Ended as ended:
                self.last_error = ended.reason
                _log.error("the weight store %s", ended.reason)
            self.ready.clear()
            await self.stop()
            self.failures.add()
            self.state = PartState.BACKOFF
            await asyncio.sleep(self.failures.backoff_seconds)
        self.state = PartState.FAILED
        _log.error("the weight store failed %d times and is not started again", self.failures.total)

    async def stop(self) -> None:
        """Ends it; readers of memory that outlives it go on."""
        group, self._group = self._group, None
        if group is not None:
            await group.stop(self._fleet.patience.stop_seconds)
        self.state = PartState.STOPPED

    async def reader_names(self) -> set[str] | None:
        """Who holds a lease of the store that stands now; None when none does."""
        answer = await self._ask()
        return None if answer is None else {str(lease["name"]) for lease in answer["leases"]}

    def shown(self) -> dict[str, Any]:
        """For status: what it holds and who reads it."""
        pid = self._group.pid if self._group else None
        kept = {name: self.answer.get(name) for name in ("checkpoint", "sha256", "total_bytes", "transport", "leases")}
        return {"state": self.state, "pid": pid, "generation": self.generation, "last_error": self.last_error, **kept}

    async def _start(self) -> None:
        self.state = PartState.STARTING
        folder = self._fleet.run_dir / "logs"
        environ = environment(self._fleet)
        self._group = await ProcessGroup.start("store", store_command(self._fleet), environ, folder)
        deadline = asyncio.get_running_loop().time() + self._fleet.patience.start_seconds
        while (await self._ask()) is None:
            if self._group.status is not None:
                raise death(self._group)
            if asyncio.get_running_loop().time() > deadline:
                raise Ended(f"was not ready after {self._fleet.patience.start_seconds:.0f} seconds")
            await asyncio.sleep(0.2)
        self.state, self.generation = PartState.READY, self.generation + 1
        self.ready.set()
        _log.info("the weight store is ready (generation %d)", self.generation)

    async def _watch(self) -> None:
        silent_since: float | None = None
        while self._group is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            if self._group.status is not None:
                raise death(self._group)
            if (await self._ask()) is not None:
                silent_since = None
            elif silent_since is None:
                silent_since = now
            elif now - silent_since > self._fleet.patience.hang_seconds:
                raise Ended("hangs: it runs and does not answer")

    async def _ask(self) -> dict[str, Any] | None:
        """Its status, if the one that answers is ours."""
        try:
            answer = await asyncio.to_thread(client.status, self._fleet.store_socket)
        except SharedWeightsError:
            return None
        if self._group is None or answer["pid"] != self._group.pid:
            return None
        self.answer = answer
        return answer
