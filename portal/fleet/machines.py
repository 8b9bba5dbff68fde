"""All that reads for the portal: the fleet, the engines, and the workers of a router in front of one.

Asked in the background: who wants to know is told what was seen last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from portal.domain import EngineCapability
from portal.engine.configuration import server_of
from portal.engine.vllm.options import ServerOptions
from portal.engine.vllm.workers import Worker, workers_behind
from portal.fleet.lookout import Lookout
from portal.fleet.watch import configured_fleet
from portal.jobs.context import Engines
from portal.settings import FleetSettings

_STEP_SECONDS = 2.0
_REFRESH_SECONDS = 5.0
_REFRESH_WITHOUT_ROUTER_SECONDS = 60.0  # a vLLM alone logs each question that it cannot answer
_KNOWN_SECONDS = 120.0

Workers = Mapping[str, tuple[Worker, ...]]


@dataclass(frozen=True)
class EngineSight:
    """One engine: what is in its way (None: nothing), and the workers of its router, None when none is known."""

    capability: EngineCapability
    slots: int
    trouble: str | None
    workers: tuple[Worker, ...] | None


class Machines:
    """Built once for a running portal; safe to share between threads. `fleet` is None where none is configured."""

    def __init__(self, settings: FleetSettings, engines: Engines) -> None:
        self.fleet = configured_fleet(settings)
        self._engines = engines
        found = {engine.capability.name: server_of(engine) for engine in engines.all}
        self._servers: dict[str, ServerOptions] = {name: server for name, server in found.items() if server is not None}
        self._lookout: Lookout[Workers] = Lookout(self._look, name="router-watch")
        self._has_router = False

    def engines(self, *, wait_seconds: float = 0.0) -> tuple[EngineSight, ...]:
        """In the order of the configuration; for a first look at routers it waits so long at most."""
        workers, troubles = self._workers(wait_seconds), self._engines.troubles
        return tuple(
            EngineSight(engine.capability, engine.slots, troubles.get(name), workers.get(name))
            for engine in self._engines.all
            for name in (engine.capability.name,)
        )

    def worker_counts(self) -> dict[str, tuple[int, int]]:
        """Part of /readyz → (workers that read, of all), as seen last; what is not known is left out."""
        sight = self.fleet.glance() if self.fleet is not None else None
        own = {"fleet": sight.workers} if sight is not None and sight.workers is not None else {}
        routed = {
            f"engine {name}": (sum(worker.is_healthy for worker in workers), len(workers))
            for name, workers in self._workers(0).items()
        }
        return {**own, **routed}

    def _workers(self, wait_seconds: float) -> Workers:
        if not self._servers:
            return {}
        refresh = _REFRESH_SECONDS if self._has_router else _REFRESH_WITHOUT_ROUTER_SECONDS
        look = self._lookout.newest(within_seconds=_KNOWN_SECONDS, refresh_seconds=refresh)
        if look is None and wait_seconds > 0:
            look = self._lookout.at_least(time.monotonic() - _KNOWN_SECONDS, wait_seconds=wait_seconds)
        return look.seen if look is not None else {}

    def _look(self) -> Workers:
        asked = {name: workers_behind(server, seconds=_STEP_SECONDS) for name, server in self._servers.items()}
        found = {name: workers for name, workers in asked.items() if workers is not None}
        self._has_router = bool(found)
        return found
