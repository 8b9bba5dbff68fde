"""The gate before each engine: whose page is next, and how many may be on their way.

Pages of jobs and direct requests (the OpenAI door) pass the same one.

Tenants take turns by start-time fair queueing with their plans' weights, and within a tenant its jobs and its direct
requests take turns. Decisions fall when a place frees, on the event loop, from a snapshot of what waits in the
database and the requests that wait in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from portal.domain import Task
from portal.engine.base import Engine
from portal.errors import Busy
from portal.jobs.fairness import FairQueue
from portal.jobs.pace import PAGES_AHEAD

MAX_WAITING_REQUESTS = 100
_LATEST_SHARE = 0.2  # of the latest turn in the mean length of direct requests' turns
DIRECT = "direct requests"  # the flow of a tenant beside its jobs, whose ids are no such words


@dataclass(frozen=True)
class Turn:
    """Whose turn it is: the tenant, and one of its jobs or its direct requests."""

    tenant_id: str
    flow: str


class WaitingRoom:
    """Bounds the requests that wait, over all engines; they hold connections, which a job does not."""

    def __init__(self, places: int = MAX_WAITING_REQUESTS) -> None:
        self.places = places
        self.taken = 0

    @asynccontextmanager
    async def place(self, *, retry_after_seconds: int = 5) -> AsyncIterator[None]:
        """A place for the length of the block. Raises Busy when all are taken."""
        if self.taken >= self.places:
            raise Busy(
                f"{self.places} requests are waiting, and no more may.",
                retry_after_seconds=retry_after_seconds,
                remedy="Try again after the time in Retry-After, or submit a job: those wait without a connection.",
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Gate:
    """One engine's places: those of its slots, and a few more whose pages are made ready meanwhile."""

    def __init__(self, engine: Engine, wake: Callable[[], None]) -> None:
        self.engine = engine
        self.slots = asyncio.Semaphore(engine.slots)
        self.beside: Counter[Task] = Counter()  # pages that are read, and wait for a server beside the engine
        self._wake = wake  # called when a page of a job is next and has a place
        self._under_way = 0
        self._tenants = FairQueue()
        self._flows: dict[str, FairQueue] = {}
        self._pages: dict[str, dict[str, int]] = {}
        self._weights: Mapping[str, float] = {}
        self._requests: dict[str, deque[asyncio.Future[None]]] = {}
        self._turn_seconds: float | None = None

    @property
    def drain_seconds(self) -> float | None:
        """Seconds between two ends of direct requests with all slots busy; None before the first has ended."""
        return None if self._turn_seconds is None else self._turn_seconds / max(1, self.engine.slots)

    @property
    def is_full(self) -> bool:
        """True when no further page may be begun now."""
        return self._under_way >= self.engine.slots + PAGES_AHEAD

    @property
    def held_back(self) -> frozenset[Task]:
        """Tasks of which no further page should be begun: as many as the engine has slots wait beside it."""
        return frozenset(task for task, pages in self.beside.items() if pages >= self.engine.slots)

    @property
    def waiting_requests(self) -> int:
        """Direct requests that wait for their turn."""
        return sum(len(queue) for queue in self._requests.values())

    def weight_of(self, tenant_id: str) -> float:
        """The tenant's weight, as it was when its waiting work was last looked at."""
        return self._weights.get(tenant_id, 1.0)

    def look(self, pages: dict[str, dict[str, int]], weights: Mapping[str, float]) -> None:
        """Takes over what waits in the database: tenant → job → pages, the oldest job first; and tenants' weights."""
        kept = {tenant: weight for tenant, weight in self._weights.items() if tenant in self._requests}
        self._pages, self._weights = pages, {**kept, **weights}
        present = pages.keys() | self._requests.keys()
        self._flows = {tenant: flows for tenant, flows in self._flows.items() if tenant in present}
        self._let_requests_in()

    def next_page(self) -> Turn | None:
        """The turn of a job's page, counted as served, with a place that `end` gives back; None when none may begin."""
        self._let_requests_in()
        turn = self._choose()
        if self.is_full or turn is None or turn.flow == DIRECT:
            return None
        self._serve(turn)
        left = self._pages[turn.tenant_id]
        left[turn.flow] -= 1
        if left[turn.flow] <= 0:
            self.forget(turn)
        return turn

    def forget(self, turn: Turn) -> None:
        """Nothing of that job waits any more."""
        jobs = self._pages.get(turn.tenant_id, {})
        jobs.pop(turn.flow, None)
        if not jobs:
            self._pages.pop(turn.tenant_id, None)

    def end(self) -> None:
        """Gives a place back; who is next gets it."""
        self._under_way -= 1
        self.pump()

    @asynccontextmanager
    async def turn(self, tenant_id: str, *, weight: float = 1.0) -> AsyncIterator[bool]:
        """Waits for the turn of a direct request, then holds one of the engine's slots for the length of the block.

        Gives whether it had to wait.
        """
        has_waited = await self._granted(tenant_id, weight) or self.slots.locked()
        try:
            async with self.slots:
                began = time.monotonic()
                yield has_waited
                self._note(time.monotonic() - began)
        finally:
            self.end()

    def _note(self, seconds: float) -> None:
        before = seconds if self._turn_seconds is None else self._turn_seconds
        self._turn_seconds = before + _LATEST_SHARE * (seconds - before)

    async def _granted(self, tenant_id: str, weight: float) -> bool:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._weights = {**self._weights, tenant_id: weight}
        queue = self._requests.setdefault(tenant_id, deque())
        queue.append(granted)
        self.pump()
        if granted.done():
            return False
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():
                self.end()  # the turn came in the moment that the caller went
            elif granted in queue:
                queue.remove(granted)
                self._forget_idle(tenant_id)
            raise
        return True

    def pump(self) -> None:
        """Lets direct requests in while it is their turn, and wakes the dispatcher when it is a page's."""
        self._let_requests_in()
        if self._pages and not self.is_full:
            self._wake()

    def _let_requests_in(self) -> None:
        while not self.is_full:
            turn = self._choose()
            if turn is None or turn.flow != DIRECT:
                return
            granted = self._requests[turn.tenant_id].popleft()
            self._forget_idle(turn.tenant_id)
            if not granted.done():  # its caller may have gone, and not been told yet
                self._serve(turn)
                granted.set_result(None)

    def _choose(self) -> Turn | None:
        tenants = [*self._pages, *(tenant for tenant in self._requests if tenant not in self._pages)]
        if not tenants:
            return None
        tenant_id = self._tenants.choose(tenants)
        flows = [*self._pages.get(tenant_id, ()), *((DIRECT,) if tenant_id in self._requests else ())]
        return Turn(tenant_id, self._flows.setdefault(tenant_id, FairQueue()).choose(flows))

    def _serve(self, turn: Turn) -> None:
        self._under_way += 1
        self._tenants.serve(turn.tenant_id, weight=self.weight_of(turn.tenant_id))
        self._flows.setdefault(turn.tenant_id, FairQueue()).serve(turn.flow)

    def _forget_idle(self, tenant_id: str) -> None:
        if not self._requests.get(tenant_id, True):
            del self._requests[tenant_id]  # an empty queue is no flow


class Gates:
    """The gates by engine, and the one waiting room before them all."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.room = WaitingRoom()
        self._wake = wake
        self._gates: dict[str, Gate] = {}

    def of(self, engine: Engine) -> Gate:
        """The engine's gate; made at its first use, on the event loop."""
        name = engine.capability.name
        if name not in self._gates:
            self._gates[name] = Gate(engine, self._wake)
        return self._gates[name]
