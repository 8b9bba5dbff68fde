"""A request's one page in the ledger: reserved before it waits, then posted or returned, in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from sqlalchemy.orm import Session

from portal.accounts.standing import refuse_ended_key
from portal.db import Database
from portal.domain import Principal, Task
from portal.errors import DocumentRefused, Unavailable
from portal.usage.admission import Ask, Held, reserve
from portal.usage.ledger import post_request, return_rest
from portal.usage.refusals import counting_refusals

log = structlog.get_logger()

Result = TypeVar("Result")

_THREADS = 8
_STORE_RETRY_SECONDS = 2.0
_STORE_TRIES = 30


class Books:
    """Reserves and settles. Each change is one transaction; what cannot be settled in a minute is swept later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="door")

    async def reserve(self, principal: Principal, *, task: Task, engine: str, file_bytes: int) -> Held:
        """Sets one page aside; when the caller is cancelled meanwhile it is given back.

        Raises LimitReached, Forbidden, Unauthenticated, NotFound, Unavailable, and DocumentRefused (file_too_large).
        """
        ask = Ask(pages=1, job_id=None, task=task.value, engine=engine, reason="request")
        reserving = asyncio.ensure_future(self._in_thread(self._reserve, principal, ask, file_bytes))
        try:
            return await asyncio.shield(reserving)
        except asyncio.CancelledError:
            reserving.add_done_callback(lambda done: self._forget(principal.tenant_id, done))
            raise

    async def settle(self, tenant_id: str, held: Held, *, is_delivered: bool) -> None:
        """Posts the page, or returns it. Waits out a database that is away, up to a minute."""
        for _ in range(_STORE_TRIES):
            try:
                await self._in_thread(self._settle, tenant_id, held.reservation_id, is_delivered)
                return
            except Unavailable as error:
                log.warning("a request's page waits for the database", reason=error.message)
                await asyncio.sleep(_STORE_RETRY_SECONDS)
        log.error("a request's page was not settled; it is swept and not charged", reservation=held.reservation_id)

    def close(self) -> None:
        """Ends the threads; what they were given is done first."""
        self._threads.shutdown(wait=True)

    def _forget(self, tenant_id: str, done: asyncio.Future[Held]) -> None:
        """Gives a reservation back that nobody waits for any more."""
        if not done.cancelled() and done.exception() is None:
            self._threads.submit(self._settle, tenant_id, done.result().reservation_id, False)

    def _reserve(self, principal: Principal, ask: Ask, file_bytes: int) -> Held:
        with counting_refusals(self._database, principal.tenant_id), self._database.transaction() as session:
            refuse_ended_key(session, principal)
            held = reserve(session, principal, ask)
            _refuse_large_file(held, file_bytes)
            return held

    def _settle(self, tenant_id: str, reservation_id: str, is_delivered: bool) -> None:
        with self._database.transaction() as session:
            _settled(session, tenant_id, reservation_id, is_delivered)

    def _in_thread(self, work: Callable[..., Result], *arguments: object) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _settled(session: Session, tenant_id: str, reservation_id: str, is_delivered: bool) -> None:
    if is_delivered:
        post_request(session, tenant_id, reservation_id)
    else:
        return_rest(session, tenant_id, reservation_id, "not_delivered")


def _refuse_large_file(held: Held, file_bytes: int) -> None:
    limit = held.terms.limits.max_file_bytes
    if limit is not None and file_bytes > limit:
        raise DocumentRefused(
            f"The image is larger than the {limit / 2**20:.4g} MiB that your plan allows.",
            code="file_too_large",
            remedy="Send it as JPEG, or scanned at a lower resolution.",
        )
