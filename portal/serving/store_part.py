"""The weight store under supervision: started, asked whether it answers, published anew when it is lost."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from portal.serving.commands import environment, store_command
from portal.serving.configuration import FleetConfiguration
from portal.serving.kept_part import KeptPart
from portal.serving.parts import Ended, PartState, death, started
from portal.serving.shared_weights import client
from portal.serving.shared_weights.faults import SharedWeightsError

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0


class StorePart(KeptPart):
    """Keeps one store; readers of memory that outlives it go on without it.

    `ready` is set while it stands; `generation` counts the stores there have been.
    """

    title = "the weight store"

    def __init__(self, fleet: FleetConfiguration) -> None:
        super().__init__(fleet)
        self.ready = asyncio.Event()
        self.generation = 0
        self.answer: dict[str, Any] = {}

    async def reader_names(self) -> set[str] | None:
        """Who holds a lease of the store that stands now; None when none does."""
        answer = await self._ask() if self.ready.is_set() else None
        return None if answer is None else {str(lease["name"]) for lease in answer["leases"]}

    def shown(self) -> dict[str, Any]:
        """For status: what it holds and who reads it."""
        kept = {name: self.answer.get(name) for name in ("checkpoint", "sha256", "total_bytes", "transport", "leases")}
        shown = {"state": self.state, "pid": self.pid, "generation": self.generation, "last_error": self.last_error}
        return {**shown, **kept}

    async def _start(self) -> None:
        self.state = PartState.STARTING
        folder = self._fleet.run_dir / "logs"
        self._group = await started("store", store_command(self._fleet), environment(self._fleet), folder)
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

    async def _end(self) -> None:
        self.ready.clear()
        self.answer = {}
        await super()._end()

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
