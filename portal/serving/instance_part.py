"""One vLLM instance under supervision: started in its turn, ready when it has read a page, told hung from dead.

An order (drain, restart, run) interrupts its watch. Drained in the order that loses no request: out of the router,
until nothing runs, SIGTERM, then the whole group.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from portal.serving import process_memory
from portal.serving.commands import environment, instance_command, instance_name
from portal.serving.configuration import FleetConfiguration
from portal.serving.failures import Failures
from portal.serving.memory_plan import MemoryPlan
from portal.serving.parts import Ended, PartState, death, started
from portal.serving.probing import Activity, activity, reads_a_page
from portal.serving.process_groups import ProcessGroup
from portal.serving.router_part import RouterPart

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5

Order = Literal["run", "restart", "drain"]


@dataclass(frozen=True)
class InstanceContext:
    """What all instances share. `turn` lets one start at a time: two would mis-measure each other's memory."""

    fleet: FleetConfiguration
    plan: MemoryPlan
    http: httpx.AsyncClient
    router: RouterPart
    store_ready: asyncio.Event
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class InstancePart:
    """Keeps one instance. `settled` is set once its first start has ended, well or badly."""

    def __init__(self, context: InstanceContext, number: int) -> None:
        self._context, self._fleet = context, context.fleet
        self.number, self.name = number, instance_name(number)
        self.url = f"http://127.0.0.1:{self._fleet.first_port + number}"
        self.failures = Failures(self._fleet.patience)
        self.settled = asyncio.Event()
        self.state, self.last_error, self.ready_since = PartState.WAITING, "", 0.0
        self.starts = 0
        self._group: ProcessGroup | None = None
        self._order: Order = "run"
        self._ordered = asyncio.Event()
        self._activity: Activity | None = None
        self._last_probe = 0.0

    async def keep(self) -> None:
        """Runs it as ordered, until cancelled."""
        while True:
            await self._obey()
            self.state = PartState.WAITING
            try:
                async with self._context.turn:
                    await self._start()
                self.settled.set()
                await self._watch()
            except Ended as ended:
                await self._fail(ended.reason)
            self.settled.set()

    def order(self, order: Order) -> None:
        """Interrupts what it does. `restart` and `run` also end a crash loop's rest."""
        if order != "drain":
            self.failures.forget()
        self._order = order
        self._ordered.set()

    @property
    def is_ordered(self) -> bool:
        """Whether an order waits that it has not begun to obey: it may be in the midst of a probe."""
        return self._ordered.is_set()

    @property
    def is_reading(self) -> bool:
        """Whether pages come to it, and nobody has asked it to end that."""
        is_picked = self.url in self._context.router.workers
        return self.state is PartState.READY and is_picked and not self.is_ordered

    async def stop(self) -> None:
        """Takes it from the router and ends it; what it reads gets the grace that vLLM was given."""
        await self._context.router.remove(self.url)
        await self._end()
        self.state = PartState.STOPPED

    def shown(self) -> dict[str, Any]:
        """For status. What is not known is None, never 0."""
        seen, group = self._activity if self.state is PartState.READY else None, self._group
        return {
            "number": self.number,
            "name": self.name,
            "state": self.state,
            "url": self.url,
            "pid": group.pid if group else None,
            "checkpoint": self._fleet.served_name,
            "ready_since": self.ready_since or None,
            "starts": self.starts,
            "failures": self.failures.total,
            "last_error": self.last_error,
            "running": seen.running if seen else None,
            "waiting": seen.waiting if seen else None,
            "finished_requests": seen.finished if seen else None,
            "cache_used": seen.cache_used if seen else None,
            "private_bytes": process_memory.unique_bytes(process_memory.family(group.pid)) if group else None,
        }

    async def _obey(self) -> None:
        """Does what was ordered, and waits while the order is to stand still."""
        self._ordered.clear()
        if self._order == "restart":
            self._order = "run"
            await self._drain()
        elif self._order == "drain":
            await self._drain()
            self.state = PartState.STOPPED
            await self._ordered.wait()
            await self._obey()
        elif self.failures.is_crash_loop:
            self.state = PartState.FAILED
            _log.error(
                "%s failed %d times and is not started again: %s", self.name, self.failures.total, self.last_error
            )
            await self._ordered.wait()
            await self._obey()

    async def _drain(self) -> None:
        if self._group is None:
            return
        was_ready = self.state is PartState.READY
        self.state = PartState.DRAINING
        await self._context.router.remove(self.url)
        if was_ready:
            await self._until_idle(self._group)
        await self._end()

    async def _until_idle(self, group: ProcessGroup) -> None:
        """Twice in a row: the router may have picked it just before it was told not to."""
        idle, deadline = 0, time.monotonic() + self._fleet.patience.drain_seconds
        while idle < 2 and time.monotonic() < deadline and group.status is None:
            seen = await activity(self._context.http, self.url)
            idle = idle + 1 if seen is not None and seen.is_idle else 0
            await asyncio.sleep(_LOOK_SECONDS)

    async def _start(self) -> None:
        while not (self._context.store_ready.is_set() or self._ordered.is_set()):
            await self._pause(0.5)
        if self._ordered.is_set():
            return
        self.state = PartState.STARTING
        self.starts += 1
        command = instance_command(self._fleet, self._context.plan, self.number)
        folder = self._fleet.run_dir / "logs"
        self._group = await started(self.name, command, environment(self._fleet), folder)
        deadline = time.monotonic() + self._fleet.patience.start_seconds
        while await activity(self._context.http, self.url) is None:
            self._refuse_death()
            if time.monotonic() > deadline:
                raise Ended(f"was not healthy after {self._fleet.patience.start_seconds:.0f} seconds")
            if self._ordered.is_set():
                return
            await asyncio.sleep(0.5)
        await self._probe(max(1.0, deadline - time.monotonic()))
        await self._context.router.add(self.url)
        self.ready_since, self.last_error = time.time(), ""
        self.state = PartState.READY
        _log.info("%s is ready at %s", self.name, self.url)

    async def _watch(self) -> None:
        """Until an order comes, or it dies or hangs."""
        quiet_since: float | None = None
        before: Activity | None = None
        while not self._ordered.is_set():
            self._refuse_death()
            now = await activity(self._context.http, self.url)
            await self._offer(is_answering=now is not None)
            if now is None or (not now.is_idle and before is not None and now.progress == before.progress):
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > self._fleet.patience.hang_seconds:
                    raise Ended("hangs: it " + ("does not answer" if now is None else "has work and makes no progress"))
            else:
                quiet_since = None
                if now.is_idle and time.monotonic() - self._last_probe > self._fleet.patience.probe_seconds:
                    await self._probe(self._fleet.patience.hang_seconds)
            before = self._activity = now
            await self._pause(_LOOK_SECONDS)

    async def _offer(self, *, is_answering: bool) -> None:
        """At the first silence out of the router: one that balances by load would pick the dead, who is always idle."""
        if is_answering != (self.url in self._context.router.workers):
            await (self._context.router.add(self.url) if is_answering else self._context.router.remove(self.url))

    async def _probe(self, seconds: float) -> None:
        """Reads a page. Raises Ended when it cannot."""
        if not await reads_a_page(self._context.http, self.url, self._fleet.served_name, seconds):
            self._refuse_death()
            raise Ended(f"hangs: it did not read the probe page within {seconds:.0f} seconds")
        self._last_probe = time.monotonic()

    async def _fail(self, reason: str) -> None:
        self.state, self.last_error = PartState.BACKOFF, reason
        _log.error("%s %s", self.name, reason)
        self.failures.add()
        await self._context.router.remove(self.url)
        group, self._group = self._group, None
        if group is not None:
            await group.kill()
        if not self.failures.is_crash_loop:
            await self._pause(self.failures.backoff_seconds)

    async def _end(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await group.stop(self._fleet.patience.stop_seconds + 5)

    async def _pause(self, seconds: float) -> None:
        """Sleeps, unless an order comes."""
        try:
            await asyncio.wait_for(self._ordered.wait(), seconds)
        except TimeoutError:
            return

    def _refuse_death(self) -> None:
        if self._group is not None and self._group.status is not None:
            raise death(self._group)
