"""vllm-router under supervision, and the list of instances that it may pick."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx

from portal.serving.commands import environment, router_command
from portal.serving.configuration import FleetConfiguration
from portal.serving.kept_part import KeptPart
from portal.serving.parts import Ended, PartState, death, started

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
_TELL_SECONDS = 30.0


class RouterPart(KeptPart):
    """Keeps one router. `workers` are the instances that may be picked; it is started when there is one.

    `_told` is what the running router knows; it is brought to `workers` whenever the two differ.
    """

    title = "the router"

    def __init__(self, fleet: FleetConfiguration, http: httpx.AsyncClient) -> None:
        super().__init__(fleet)
        self._http = http
        self._some_worker = asyncio.Event()
        self.workers: set[str] = set()
        self._told: set[str] = set()
        self._telling = asyncio.Lock()

    @property
    def url(self) -> str:
        """What the portal is given."""
        return f"http://{self._fleet.router_host}:{self._fleet.router_port}"

    async def add(self, worker: str) -> None:
        """Lets it be picked. A router that does not run learns it at its start."""
        self.workers.add(worker)
        self._some_worker.set()
        await self._tell_if_ready()

    async def remove(self, worker: str) -> None:
        """No new request goes there; those under way are finished."""
        self.workers.discard(worker)
        if not self.workers:
            self._some_worker.clear()
        await self._tell_if_ready()

    def shown(self) -> dict[str, Any]:
        """For status."""
        workers = sorted(self.workers)
        shown = {"state": self.state, "pid": self.pid, "url": self.url, "workers": workers}
        return {**shown, "last_error": self.last_error}

    async def _start(self) -> None:
        self.state = PartState.WAITING
        await self._some_worker.wait()
        self.state = PartState.STARTING
        self._told = set(self.workers)
        folder, command = self._fleet.run_dir / "logs", router_command(self._fleet, sorted(self._told))
        self._group = await started("router", command, environment(self._fleet), folder)
        deadline = asyncio.get_running_loop().time() + self._fleet.patience.start_seconds
        while not await self._is_healthy():
            if self._group.status is not None:
                raise death(self._group)
            if asyncio.get_running_loop().time() > deadline:
                raise Ended("was not ready in time")
            await asyncio.sleep(0.2)
        await self._tell()
        self.state = PartState.READY
        _log.info("the router is ready at %s with %d instances", self.url, len(self.workers))

    async def _watch(self) -> None:
        silent = 0.0
        while self._group is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._group.status is not None:
                raise death(self._group)
            silent = 0.0 if await self._is_healthy() or not self.workers else silent + _LOOK_SECONDS
            if silent > self._fleet.patience.hang_seconds:
                raise Ended("hangs: it runs and does not answer")
            if not silent:
                await self._tell()

    async def _is_healthy(self) -> bool:
        try:
            return (await self._http.get(f"{self.url}/liveness", timeout=_ANSWER_SECONDS)).status_code == 200
        except httpx.HTTPError:
            return False

    async def _tell_if_ready(self) -> None:
        """One that starts is told at the end of its start: instances come and leave meanwhile."""
        if self.state is PartState.READY:
            await self._tell()

    async def _tell(self) -> None:
        """Brings the router's list to ours. What it does not take is told again at the next look."""
        async with self._telling:
            refused: set[str] = set()
            while differing := (self._told ^ self.workers) - refused:
                worker = min(differing)
                if await self._took("add_worker" if worker in self.workers else "remove_worker", worker):
                    self._told ^= {worker}
                else:
                    refused.add(worker)

    async def _took(self, what: str, worker: str) -> bool:
        try:
            answer = await self._http.post(f"{self.url}/{what}", params={"url": worker}, timeout=_TELL_SECONDS)
        except httpx.HTTPError as error:
            _log.warning("the router did not take %s of %s: %r", what, worker, error)
            return False
        if answer.status_code >= 400:
            _log.info("the router on %s of %s: %s", what, worker, answer.text[:200])
        return True
