"""vllm-router under supervision, and the list of instances that it may pick."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx

from portal.serving.commands import environment, router_command
from portal.serving.configuration import FleetConfiguration
from portal.serving.failures import Failures
from portal.serving.parts import Ended, PartState, death
from portal.serving.process_groups import ProcessGroup

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
_ANSWER_SECONDS = 5.0


class RouterPart:
    """Keeps one router. `workers` are the instances that may be picked; it is started when there is one."""

    def __init__(self, fleet: FleetConfiguration, http: httpx.AsyncClient) -> None:
        self._fleet, self._http = fleet, http
        self._group: ProcessGroup | None = None
        self._some_worker = asyncio.Event()
        self.workers: set[str] = set()
        self.failures = Failures(fleet.patience)
        self.state, self.last_error = PartState.WAITING, ""

    @property
    def url(self) -> str:
        """What the portal is given."""
        return f"http://{self._fleet.router_host}:{self._fleet.router_port}"

    async def add(self, worker: str) -> None:
        """Lets it be picked. A router that does not run learns it at its start."""
        self.workers.add(worker)
        self._some_worker.set()
        await self._tell("add_worker", worker)

    async def remove(self, worker: str) -> None:
        """No new request goes there; those under way are finished."""
        self.workers.discard(worker)
        if not self.workers:
            self._some_worker.clear()
        await self._tell("remove_worker", worker)

    async def keep(self) -> None:
        """Starts it again whenever it ends, until cancelled or in a crash loop."""
        while not self.failures.is_crash_loop:
            await self._some_worker.wait()
            try:
                await self._start()
                await self._watch()
            except Ended as ended:
                self.last_error = ended.reason
                _log.error("the router %s", ended.reason)
            await self.stop()
            self.failures.add()
            self.state = PartState.BACKOFF
            await asyncio.sleep(self.failures.backoff_seconds)
        self.state = PartState.FAILED
        _log.error("the router failed %d times and is not started again", self.failures.total)

    async def stop(self) -> None:
        """Ends it; requests under way get the grace."""
        group, self._group = self._group, None
        if group is not None:
            await group.stop(self._fleet.patience.stop_seconds)
        self.state = PartState.STOPPED

    def shown(self) -> dict[str, Any]:
        """For status."""
        pid = self._group.pid if self._group else None
        workers = sorted(self.workers)
        return {"state": self.state, "pid": pid, "url": self.url, "workers": workers, "last_error": self.last_error}

    async def _start(self) -> None:
        self.state = PartState.STARTING
        known = sorted(self.workers)
        folder, environ = self._fleet.run_dir / "logs", environment(self._fleet)
        self._group = await ProcessGroup.start("router", router_command(self._fleet, known), environ, folder)
        deadline = asyncio.get_running_loop().time() + self._fleet.patience.start_seconds
        while not await self._is_healthy():
            if self._group.status is not None:
                raise death(self._group)
            if asyncio.get_running_loop().time() > deadline:
                raise Ended("was not ready in time")
            await asyncio.sleep(0.2)
        for worker in self.workers.difference(known):
            await self._tell("add_worker", worker)
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

    async def _is_healthy(self) -> bool:
        try:
            return (await self._http.get(f"{self.url}/liveness", timeout=_ANSWER_SECONDS)).status_code == 200
        except httpx.HTTPError:
            return False

    async def _tell(self, what: str, worker: str) -> None:
        if self._group is None:
            return
        try:
            answer = await self._http.post(f"{self.url}/{what}", params={"url": worker}, timeout=30)
        except httpx.HTTPError as error:
            _log.warning("the router did not take %s of %s: %s", what, worker, error)
            return
        if answer.status_code >= 400:
            _log.info("the router on %s of %s: %s", what, worker, answer.text[:200])
