"""A request's one page in the ledger: reserved before it waits, then posted or returned, in threads of its own."""

from __future__ import annotations

import asyncio

import structlog
from sqlalchemy.orm import Session

from portal.accounts.standing import refuse_ended_caller, refuse_ended_key
from portal.db import Database
from portal.domain import Principal, Task
from portal.door.writer import Writer
from portal.errors import LimitReached, Unavailable
from portal.jobs.presence import Presence
from portal.usage.admission import Ask, Held, reserve
from portal.usage.refusals import counting_refusals
from portal.usage.request_ends import end_request

log = structlog.get_logger()

_STORE_RETRY_SECONDS = 2.0
_STORE_TRIES = 30


class Books:
    """Reserves and settles, each on disk when it is told; what cannot be settled in a minute is swept later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = Writer(database)
        self._presence = Presence(database)

    async def reserve(self, principal: Principal, *, task: Task, engine: str, file_bytes: int) -> Held:
        """Sets one page aside; when the caller is cancelled meanwhile it is given back.

        Raises LimitReached, Forbidden, Unauthenticated, NotFound, Unavailable, and DocumentRefused (file_too_large).
        """

        def reserved(session: Session) -> Held:
            refuse_ended_key(session, principal)
            holder = self._presence.holder()
            return reserve(session, principal, Ask(1, None, task.value, engine, "request", file_bytes, holder))

        reserving = self._writer.write(reserved)
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            reserving.add_done_callback(lambda done: self._forget(principal.tenant_id, done))
            raise
        except LimitReached as refusal:
            await asyncio.to_thread(self._count, principal.tenant_id, refusal)
            raise

    async def look_again(self, principal: Principal) -> None:
        """A key or a tenant may have ended during a wait. Raises Unauthenticated, Forbidden, Unavailable."""
        await asyncio.to_thread(self._look, principal)

    async def settle(self, tenant_id: str, held: Held, *, is_delivered: bool) -> None:
        """Posts the page, or returns it. Waits out a database that is away, up to a minute."""

        def settled(session: Session) -> None:
            end_request(session, tenant_id, held.reservation_id, is_delivered=is_delivered)

        for _ in range(_STORE_TRIES):
            try:
                await self._writer.write(settled, is_patient=True)
                return
            except Unavailable as error:
                log.warning("a request's page waits for the database", reason=error.message)
                await asyncio.sleep(_STORE_RETRY_SECONDS)
        log.error("a request's page was not settled; it is swept and not charged", reservation=held.reservation_id)

    def close(self) -> None:
        """Ends the threads; what they were given is done first."""
        self._writer.close()
        self._presence.end()

    def _look(self, principal: Principal) -> None:
        with self._database.reading() as session:
            refuse_ended_caller(session, principal)

    def _count(self, tenant_id: str, refusal: LimitReached) -> None:
        try:
            with counting_refusals(self._database, tenant_id):
                raise refusal
        except LimitReached:
            return

    def _forget(self, tenant_id: str, done: asyncio.Future[Held]) -> None:
        """Gives a reservation back that nobody waits for any more."""
        if not done.cancelled() and done.exception() is None:
            reservation_id = done.result().reservation_id
            self._writer.write(lambda session: end_request(session, tenant_id, reservation_id, is_delivered=False))
