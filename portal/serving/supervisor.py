"""The fleet's story: plan → MPS if asked → store → instances one at a time → router; stopped in reverse.

One process on the GPU box (`python app.py fleet up`). It ends what an earlier run left, restarts what dies or hangs,
and replaces readers of a lost store one by one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from typing import Any

import httpx

from portal.errors import Conflict, NotFound, PortalError, Unavailable
from portal.serving import mps, run_folder
from portal.serving.configuration import FleetConfiguration
from portal.serving.instance_part import InstanceContext, InstancePart
from portal.serving.kept_part import KeptPart
from portal.serving.memory_plan import MemoryPlan
from portal.serving.parts import PartState
from portal.serving.process_groups import end_leftovers
from portal.serving.rolling import RollingRestart
from portal.serving.router_part import RouterPart
from portal.serving.store_part import StorePart
from portal.serving.systemd import notify, watchdog_seconds

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
_START_LOOK_SECONDS = 0.2

Part = KeptPart | InstancePart


class Supervisor:
    """One fleet. Its public methods are what the control socket calls, in the event loop."""

    def __init__(self, fleet: FleetConfiguration, plan: MemoryPlan, http: httpx.AsyncClient) -> None:
        self.fleet, self.plan = fleet, plan
        self.store, self.router = StorePart(fleet), RouterPart(fleet, http)
        context = InstanceContext(fleet, plan, http, self.router, self.store.ready)
        self.instances = [InstancePart(context, number) for number in range(fleet.instances)]
        self._restart = RollingRestart(fleet, self.store, self.instances)
        self._rolling: asyncio.Task[None] | None = None
        self._down = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._keepers: dict[Part, asyncio.Task[None]] = {}
        self._fault: BaseException | None = None

    async def run(self) -> None:
        """Until `down` or a signal. Raises PortalError with the reason when it cannot start, or a part of it fails."""
        try:
            await self._unless_down(self._start())
            if not self._down.is_set():
                notify("READY=1", f"STATUS={self._summary()}")
                _log.log(self._level(), "the fleet is up: %s", self._summary())
                self._spawn(self._follow_the_store())
                await self._look_after()
        finally:
            await self._end()
        if self._fault is not None:
            raise _explained(self._fault) from self._fault

    def down(self) -> None:
        """Asks for the end of all."""
        self._down.set()

    async def drain(self, number: int) -> None:
        """Takes one instance out and stops it when it has finished what it reads; `restart` brings it back."""
        instance = self._instance(number)
        if instance.is_reading and self._reading_count() == 1:
            raise Conflict(
                f"{instance.name} is the only one that reads.",
                remedy="Restart it, or take the fleet down; draining it would leave nobody to read.",
            )
        instance.order("drain")

    async def restart(self, numbers: Iterable[int] | None = None) -> None:
        """Replaces instances one by one, the next when the one before is ready: with two or more no request is lost.

        Store and router, too, are given a new start where they had failed for good. Returns at once; `status` shows how
        it goes. Raises NotFound, or Conflict while another such run is under way.
        """
        chosen = [self._instance(number) for number in numbers] if numbers is not None else list(self.instances)
        if self._is_rolling:
            raise Conflict("A rolling restart is under way.", remedy="Wait until `fleet status` shows its end.")
        self.store.revive()
        self.router.revive()
        self._roll(chosen)

    async def status(self) -> dict[str, Any]:
        """Everything that people ask about, as JSON values."""
        stopped_at = self._restart.stopped_at
        return {
            "fleet": {
                "checkpoint": str(self.fleet.checkpoint),
                "served_name": self.fleet.served_name,
                "device": self.fleet.device,
                "transport": self.fleet.transport,
                "mps": self.fleet.mps,
                "is_rolling": self._is_rolling,
                "rolling_stopped_at": stopped_at.name if stopped_at else None,
                "fitting_instances": self.plan.fitting,
                "summary": self._summary(),
            },
            "store": self.store.shown(),
            "router": self.router.shown(),
            "instances": await asyncio.to_thread(lambda: [instance.shown() for instance in self.instances]),
        }

    async def _start(self) -> None:
        """Store, instances, router. Raises Unavailable when store, router or all instances do not get ready.

        One of several instances that does not is told, and tried again while the others read.
        """
        self._keep(self.store)
        await self._until(self.store.ready.is_set)
        for instance in self.instances:
            self._keep(instance)
        await self._until(lambda: all(instance.settled.is_set() for instance in self.instances))
        self._keep(self.router)
        await self._until(lambda: self.router.state is PartState.READY)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._refuse_crash_loops()
            await asyncio.sleep(_START_LOOK_SECONDS)

    def _refuse_crash_loops(self) -> None:
        """What never gets ready is a mistake in the configuration more often than bad luck: say it at once."""
        for part, log in ((self.store, "store.log"), (self.router, "router.log")):
            if part.state is PartState.FAILED:
                raise self._not_ready(f"{part.title.capitalize()} did not get ready: {part.last_error}", log)
        if all(instance.state is PartState.FAILED for instance in self.instances):
            raise self._not_ready(f"No instance gets ready: {self.instances[0].last_error}", "instance-0.log")

    def _not_ready(self, message: str, log: str) -> Unavailable:
        return Unavailable(message, remedy=f"See {self.fleet.run_dir}/logs/{log}.")

    async def _end(self) -> None:
        """In reverse. What cannot be ended is said, and hinders nothing else."""
        notify("STOPPING=1")
        _log.info("the fleet goes down: router, instances, store")
        await _ended(self._tasks - set(self._keepers.values()))
        await self._let_go(self.router)
        await self._let_go(*self.instances)
        await self._let_go(self.store)

    async def _let_go(self, *parts: Part) -> None:
        await _ended({self._keepers[part] for part in parts if part in self._keepers})
        for fault in await asyncio.gather(*(part.stop() for part in parts), return_exceptions=True):
            if fault is not None:
                _log.error("a part could not be ended", exc_info=fault)

    async def _look_after(self) -> None:
        """Says to systemd that it lives."""
        every = watchdog_seconds()
        seconds = min(_LOOK_SECONDS, every) if every else _LOOK_SECONDS
        while not self._down.is_set():
            notify("WATCHDOG=1", f"STATUS={self._summary()}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._down.wait(), seconds)

    async def _follow_the_store(self) -> None:
        """Those that read a lost store's memory still serve; one by one they are given that of the new one."""
        while True:
            due = [] if self._is_rolling else await self._restart.due()
            if due and not self._is_rolling:
                _log.info("replacing %s: they read a store which is gone", ", ".join(one.name for one in due))
                self._roll(due)
            await asyncio.sleep(_LOOK_SECONDS)

    def _roll(self, chosen: list[InstancePart]) -> None:
        self._rolling = self._spawn(self._restart.run(chosen))

    @property
    def _is_rolling(self) -> bool:
        return self._rolling is not None and not self._rolling.done()

    async def _unless_down(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for it, or for the order to go down, which ends it. Raises what it raises."""
        task = asyncio.create_task(work)
        both: list[asyncio.Task[Any]] = [task, asyncio.create_task(self._down.wait())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _ended(both)
        if not task.cancelled():
            task.result()

    def _keep(self, part: Part) -> None:
        self._keepers[part] = self._spawn(part.keep())

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._report)
        return task

    def _report(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            _log.critical("a part of the supervisor failed; the fleet goes down", exc_info=fault)
            self._fault = self._fault or fault
            self._down.set()

    def _instance(self, number: int) -> InstancePart:
        if not 0 <= number < len(self.instances):
            raise NotFound(
                f"There is no instance {number}.", remedy=f"They are numbered 0 to {len(self.instances) - 1}."
            )
        return self.instances[number]

    def _reading_count(self) -> int:
        return sum(instance.is_reading for instance in self.instances)

    def _level(self) -> int:
        return logging.INFO if self._reading_count() == len(self.instances) else logging.WARNING

    def _summary(self) -> str:
        failed = [part for part in (self.store, self.router) if part.state is PartState.FAILED]
        away = [one for one in self.instances if one.last_error and not one.is_reading]
        faults = [f"{part.title} has failed: {part.last_error}" for part in failed]
        faults += [f"{one.name} does not read ({one.state}): {one.last_error}" for one in away]
        reading = f"{self._reading_count()} of {len(self.instances)} instances read at {self.router.url}"
        return "; ".join((reading, *faults))


async def supervise(fleet: FleetConfiguration, plan: MemoryPlan) -> None:
    """`fleet up`: from plan to end. Raises PortalError when it cannot start."""
    from portal.serving.control_server import serving_control

    plan.refuse_unless_it_fits()
    with run_folder.held(fleet):
        left = end_leftovers(fleet.run_dir / "logs")
        if left:
            _log.warning("ended what an earlier run left: %s", ", ".join(left))
        async with httpx.AsyncClient(trust_env=False) as http:
            with mps.daemon(fleet):
                supervisor = Supervisor(fleet, plan, http)
                _take_signals(supervisor)
                with serving_control(supervisor, asyncio.get_running_loop()):
                    await supervisor.run()


def _take_signals(supervisor: Supervisor) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.down)


def _explained(fault: BaseException) -> PortalError:
    """For whoever started the fleet; where it happened is in the log already."""
    if isinstance(fault, PortalError):
        return fault
    return Unavailable(
        f"A part of the fleet failed, and the fleet went down: {type(fault).__name__}: {fault}",
        remedy="The log above says where; it is a fault of this program: report it.",
    )


async def _ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
