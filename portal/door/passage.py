"""The story of one request: admitted, waiting for its turn, asked, delivered, counted.

A page is reserved before it waits, and posted when text was delivered, also to a reader who left in the middle; else
it is returned. Who has waited is looked at again before anything is sent: a key may end meanwhile. Whoever leaves has
the call aborted and the place freed at once. What a killed process had reserved is swept once it is gone
(portal/jobs/presence.py); so a stream's page is posted as its first text goes out, not at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import structlog

from portal.domain import Principal
from portal.door import upstream
from portal.door.books import Books
from portal.door.failures import refusal_of, too_slow
from portal.door.offer import require_ready
from portal.door.order import Letter, Order
from portal.door.spool import Spool
from portal.door.upstream import Answer
from portal.engine.base import Call, priority_of
from portal.engine.vllm.failures import AWAY
from portal.errors import Busy, EngineError
from portal.jobs.context import JobContext
from portal.jobs.waiting import waiting_place, waiting_retry_seconds
from portal.usage.admission import Held
from portal.usage.standing import TenantStanding

log = structlog.get_logger()

WAIT_SECONDS = 300.0
MAX_ENGINE_SECONDS = 1800.0  # with WAIT_SECONDS well within the hour after which a reservation is a stray


class Door:
    """The door of one running portal; used on its event loop, but for `spool`."""

    def __init__(self, context: JobContext) -> None:
        self.context = context
        folder = context.settings.store.data_dir / "incoming"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spool = Spool(folder)
        self.books = Books(context.database)

    async def deliver(self, principal: Principal, order: Order, *, request_id: str) -> Delivery:
        """The answer as soon as its first text (or all of it) is there; the caller ends the delivery.

        Cancelled, it leaves nothing behind. Raises LimitReached, Busy, EngineError, InvalidRequest, Forbidden,
        Unauthenticated, Unavailable.
        """
        require_ready(self.context.engines, order.engine)
        async with AsyncExitStack() as stack:
            async with waiting_place(self.context, order.engine):
                held = await self._reserved(principal, order)
                charge = Charge(self.books, principal.tenant_id, held)
                stack.push_async_callback(charge.settle)
                if await self._turn(principal, order, held, stack):
                    await self.books.look_again(principal)
            until = asyncio.get_running_loop().time() + self._seconds
            letter = Letter(order, priority=priority_of(held.terms.limits.weight))
            answer = await self._answer(order, letter, until, Call(request_id=request_id))
            stack.push_async_callback(answer.close)
            return Delivery(order, answer, charge, until, stack.pop_all())

    def close(self) -> None:
        """Settles what is under way."""
        self.books.close()

    @property
    def _seconds(self) -> float:
        return min(float(self.context.settings.engine.page_seconds), MAX_ENGINE_SECONDS)

    async def _reserved(self, principal: Principal, order: Order) -> Held:
        name, size = order.engine.capability.name, order.image.spooled.byte_size
        return await self.books.reserve(principal, task=order.task, engine=name, file_bytes=size)

    async def _turn(self, principal: Principal, order: Order, held: Held, stack: AsyncExitStack) -> bool:
        """Comes back when it is the request's turn; gives whether it had to wait for it."""
        gate = self.context.gates.of(order.engine)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                turn = gate.turn(principal.tenant_id, weight=held.terms.limits.weight)
                return await stack.enter_async_context(turn)
        except TimeoutError:
            raise Busy(
                f"It was not the request's turn within {WAIT_SECONDS:g} seconds.",
                retry_after_seconds=await waiting_retry_seconds(self.context, order.engine),
            ) from None

    async def _answer(self, order: Order, letter: Letter, until: float, call: Call) -> Answer:
        try:
            async with asyncio.timeout_at(until):
                return await upstream.ask(order, letter, call)
        except TimeoutError:
            raise too_slow() from None
        except EngineError as error:
            if error.code == AWAY:
                self.context.engines.mark(order.engine, error.message)  # until its watch hears it answer again
            raise refusal_of(error) from error


class Charge:
    """The one page of a request."""

    def __init__(self, books: Books, tenant_id: str, held: Held) -> None:
        self.held = held
        self._is_delivered = False
        self._settling: asyncio.Future[None] | None = None
        self._books = books
        self._tenant_id = tenant_id

    def deliver(self) -> None:
        """Text has gone out to the reader: the page is posted, whatever becomes of the rest."""
        self._is_delivered = True
        self._begin()

    async def settle(self) -> None:
        """Returns the page unless it was posted; done when that is on disk, also when the caller is cancelled."""
        await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Future[None]:
        if self._settling is None:
            settling = self._books.settle(self._tenant_id, self.held, is_delivered=self._is_delivered)
            self._settling = asyncio.ensure_future(settling)
        return self._settling


class Delivery:
    """An answer on its way to the reader. `pieces` gives it; `end` must be called, whatever happens."""

    def __init__(self, order: Order, answer: Answer, charge: Charge, until: float, stack: AsyncExitStack) -> None:
        self.is_stream = order.is_stream
        self._order = order
        self._answer = answer
        self._charge = charge
        self._until = until
        self._stack = stack

    @property
    def standing(self) -> TenantStanding:
        """How the tenant stands with this request counted."""
        held = self._charge.held
        return TenantStanding(held.terms, held.period, held.counters)

    async def pieces(self) -> AsyncIterator[bytes]:
        """What is sent to the reader, piece by piece. Raises PortalError for what fails in the middle."""
        for piece in self._answer.first:
            yield piece
        if self._answer.has_text:
            self._charge.deliver()
        if self._answer.rest is None:
            return
        try:
            async for piece in self._answer.rest:
                yield piece
        except EngineError as error:
            raise refusal_of(error) from error

    @property
    def length_bytes(self) -> int | None:
        """The size of a whole answer; None for a stream."""
        return None if self.is_stream else sum(map(len, self._answer.first))

    @property
    def until(self) -> float:
        """The event loop's time at which the delivery is over."""
        return self._until

    async def end(self) -> None:
        """Aborts what is under way, frees the place and settles the page. Twice is harmless."""
        await self._stack.aclose()
