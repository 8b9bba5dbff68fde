"""The fleet's story: plan → MPS if asked → store → instances one at a time → router; stopped in reverse.

One process on the GPU box (`python app.py fleet up`). It ends what an earlier run left, restarts what dies or hangs,
and replaces readers of a lost store one by one.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import httpx

from portal.errors import Conflict, NotFound, SettingsError, Unavailable
from portal.serving import mps
from portal.serving.configuration import FleetConfiguration
from portal.serving.instance_part import InstanceContext, InstancePart
from portal.serving.memory_plan import MemoryPlan
from portal.serving.parts import PartState
from portal.serving.process_groups import end_leftovers
from portal.serving.router_part import RouterPart
from portal.serving.store_part import StorePart
from portal.serving.systemd import notify, watchdog_seconds

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
_AT_REST = (PartState.READY, PartState.FAILED, PartState.STOPPED, PartState.BACKOFF)


class Supervisor:
    """One fleet. Its public methods are what the control socket calls, in the event loop."""

    def __init__(self, fleet: FleetConfiguration, plan: MemoryPlan, http: httpx.AsyncClient) -> None:
        self.fleet, self.plan = fleet, plan
        self.store, self.router = StorePart(fleet), RouterPart(fleet, http)
        context = InstanceContext(fleet, plan, http, self.router, self.store.ready)
        self.instances = [InstancePart(context, number) for number in range(fleet.instances)]
        self._rolling = asyncio.Lock()
        self._down = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until `down` or a signal. Raises SettingsError when the fleet cannot start at all."""
        async with self._parts():
            await self._until_first_starts_are_over()
            notify("READY=1", f"STATUS={self._summary()}")
            _log.info("the fleet is up: %s", self._summary())
            await self._look_after()

    def down(self) -> None:
        """Asks for the end of all."""
        self._down.set()

    async def drain(self, number: int) -> None:
        """Takes one instance out and stops it when it has finished what it reads; `restart` brings it back."""
        instance = self._instance(number)
        if instance.state is PartState.READY and self._ready_count() == 1:
            raise Conflict(
                f"{instance.name} is the only one that reads.",
                remedy="Restart it, or take the fleet down; draining it would leave nobody to read.",
            )
        await instance.order("drain")

    async def restart(self, numbers: Iterable[int] | None = None) -> None:
        """Replaces instances one by one, the next when the one before is ready: with two or more no request is lost.

        Returns at once; `status` shows how it goes. Raises NotFound, or Conflict while another such run is under way.
        """
        chosen = [self._instance(number) for number in numbers] if numbers is not None else list(self.instances)
        if self._rolling.locked():
            raise Conflict("A rolling restart is under way.", remedy="Wait until `fleet status` shows its end.")
        self._spawn(self._roll(chosen))

    async def status(self) -> dict[str, Any]:
        """Everything that people ask about, as JSON values."""
        return {
            "fleet": {
                "checkpoint": str(self.fleet.checkpoint),
                "served_name": self.fleet.served_name,
                "device": self.fleet.device,
                "transport": self.fleet.transport,
                "mps": self.fleet.mps,
                "is_rolling": self._rolling.locked(),
                "fitting_instances": self.plan.fitting,
            },
            "store": self.store.shown(),
            "router": self.router.shown(),
            "instances": await asyncio.to_thread(lambda: [instance.shown() for instance in self.instances]),
        }

    @asynccontextmanager
    async def _parts(self) -> AsyncIterator[None]:
        """Starts all that runs by itself, and ends it in reverse."""
        store = self._spawn(self.store.keep())
        await self._first_store(store)
        keepers = [self._spawn(instance.keep()) for instance in self.instances]
        router: asyncio.Task[None] | None = None
        try:
            await self._any(self._all_settled())
            router = self._spawn(self.router.keep())
            yield
        finally:
            notify("STOPPING=1")
            _log.info("the fleet goes down: router, instances, store")
            await _ended([router] if router else [])
            await self.router.stop()
            await _ended(keepers)
            await asyncio.gather(*(instance.stop() for instance in self.instances))
            await _ended([store, *self._tasks])
            await self.store.stop()

    async def _first_store(self, keeper: asyncio.Task[None]) -> None:
        """A store that never stands is a mistake in the configuration more often than bad luck: say it at once."""
        ready = asyncio.create_task(self.store.ready.wait())
        down = asyncio.create_task(self._down.wait())
        await asyncio.wait({ready, down, keeper}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        down.cancel()
        if not self.store.ready.is_set():
            keeper.cancel()
            await self.store.stop()
            raise Unavailable(
                f"The weight store did not get ready: {self.store.last_error or 'it was told to stop'}",
                remedy=f"See {self.fleet.run_dir}/logs/store.log.",
            )

    async def _all_settled(self) -> None:
        await asyncio.gather(*(instance.settled.wait() for instance in self.instances))

    async def _until_first_starts_are_over(self) -> None:
        while self.router.state is not PartState.READY and not self._down.is_set():
            if all(instance.state is PartState.FAILED for instance in self.instances):
                raise Unavailable(
                    f"No instance gets ready: {self.instances[0].last_error}",
                    remedy=f"See {self.fleet.run_dir}/logs/instance-0.log.",
                )
            await asyncio.sleep(0.2)

    async def _look_after(self) -> None:
        """Says to systemd that it lives, and replaces readers of a store that is no more."""
        every = watchdog_seconds()
        seconds = min(_LOOK_SECONDS, every) if every else _LOOK_SECONDS
        generation = self.store.generation
        while not self._down.is_set():
            notify("WATCHDOG=1", f"STATUS={self._summary()}")
            if self.store.ready.is_set() and self.store.generation != generation:
                generation = self.store.generation
                self._spawn(self._replace_readers())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._down.wait(), seconds)

    async def _replace_readers(self) -> None:
        """Those that read the lost store's memory still serve; one by one they are given the new one's."""
        readers = await self.store.reader_names()
        if readers is None:
            return
        stale = [one for one in self.instances if one.name not in readers and one.state is PartState.READY]
        if stale:
            _log.info("replacing %d instances that read a store which is gone", len(stale))
            await self._roll(stale)

    async def _roll(self, chosen: list[InstancePart]) -> None:
        async with self._rolling:
            for instance in chosen:
                await instance.order("restart")
                reached = await instance.wait_for(*_AT_REST)
                if reached is not PartState.READY:
                    _log.error("the rolling restart stops: %s is %s", instance.name, reached)
                    return

    async def _any(self, waiting: Any) -> None:
        """Waits for something, or for the order to go down."""
        tasks = {asyncio.ensure_future(waiting), asyncio.create_task(self._down.wait())}
        _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._report)
        return task

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.critical("a part of the supervisor failed; the fleet goes down", exc_info=task.exception())
            self._down.set()

    def _instance(self, number: int) -> InstancePart:
        if not 0 <= number < len(self.instances):
            raise NotFound(
                f"There is no instance {number}.", remedy=f"They are numbered 0 to {len(self.instances) - 1}."
            )
        return self.instances[number]

    def _ready_count(self) -> int:
        return sum(instance.state is PartState.READY for instance in self.instances)

    def _summary(self) -> str:
        return f"{self._ready_count()} of {len(self.instances)} instances read at {self.router.url}"


async def supervise(fleet: FleetConfiguration, plan: MemoryPlan) -> None:
    """`fleet up`: from plan to end. Raises PortalError when it cannot start."""
    from portal.serving.control_server import serving_control

    plan.refuse_unless_it_fits()
    with _only_supervisor(fleet):
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


@contextmanager
def _only_supervisor(fleet: FleetConfiguration) -> Iterator[None]:
    """Holds the run folder, made for its owner alone. Raises SettingsError when another supervisor has it."""
    folder = fleet.run_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / "logs").mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / "fleet.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SettingsError(
            f"Another fleet runs in {folder}.", remedy="Steer it (fleet status), or name another run_dir."
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    current = asyncio.current_task()
    others = [task for task in tasks if task is not current]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
