"""The in-process dispatcher: when a slot frees, the tenant whose turn it is gets it.

Its truth is the database; what it keeps in memory are the virtual clocks and the pages under way. One process
for a database dispatches (`ownership`); on taking over it requeues what a dead one left running.
"""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import time
from contextlib import suppress

import structlog

from portal.engine.base import Engine
from portal.errors import Unavailable
from portal.jobs import claims
from portal.jobs.claims import Claim
from portal.jobs.context import JobContext
from portal.jobs.engine_watch import watch
from portal.jobs.execution import execute, internal_failure, settle
from portal.jobs.fairness import FairQueue
from portal.jobs.ownership import Ownership
from portal.jobs.pace import PAGES_AHEAD
from portal.jobs.sweep import sweep_blobs

log = structlog.get_logger()

_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 5.0
_SWEEP_SECONDS = 3600.0


class Lane:
    """One engine's slots, its pages under way and the fair turns between tenants and between a tenant's jobs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.slots = asyncio.Semaphore(engine.slots)
        self.at_work: dict[str, asyncio.Task[None]] = {}  # by claim token
        self.paused_until = 0.0  # of time.monotonic: storage was away
        self._tenants = FairQueue()
        self._jobs: dict[str, FairQueue] = {}

    @property
    def is_full(self) -> bool:
        """True when no further page may be begun now."""
        return len(self.at_work) >= self.engine.slots + PAGES_AHEAD or time.monotonic() < self.paused_until

    def choose(self, waiting: dict[str, dict[str, int]]) -> tuple[str, str]:
        """(tenant, job) whose page is next, counted as served; `waiting` as `claims.waiting` gives it."""
        tenant_id = self._tenants.choose(waiting)
        jobs = self._jobs.setdefault(tenant_id, FairQueue())
        job_id = jobs.choose(waiting[tenant_id])
        self._tenants.serve(tenant_id)
        jobs.serve(job_id)
        self._jobs = {tenant: queue for tenant, queue in self._jobs.items() if tenant in waiting}
        return tenant_id, job_id


class Dispatcher:
    """Runs as one asyncio task from the portal's start to its stop."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._ownership = Ownership(context.database)
        self._is_owner = False
        self._next_stray_look = 0.0
        self._worker = f"{platform.node()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"

    async def run(self) -> None:
        """Starts the engines and dispatches until it is cancelled; pages under way then go back to the queue."""
        lanes = [Lane(engine) for engine in self._context.engines.all]
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(watch(self._context.engines, lane.engine))
            group.create_task(self._sweep())
            group.create_task(self._dispatch(lanes))

    async def _dispatch(self, lanes: list[Lane]) -> None:
        try:
            with self._context.notices.listening() as listener:
                while True:
                    await self._round(lanes)
                    await listener.next(_LOOK_SECONDS)
        finally:
            await self._stop(lanes)
            await asyncio.to_thread(self._ownership.release)

    async def _round(self, lanes: list[Lane]) -> None:
        try:
            if not await self._may_dispatch(lanes):
                return
            await self._drop_lost(lanes)
            for lane in lanes:
                await self._fill(lane)
        except Unavailable as error:
            log.warning("cannot dispatch now", reason=error.message)
        except Exception:
            log.exception("dispatch failed; trying again")

    async def _may_dispatch(self, lanes: list[Lane]) -> bool:
        if self._is_owner and await asyncio.to_thread(self._ownership.is_held):
            return True
        if self._is_owner:
            log.warning("lost the right to dispatch; standing by")
            self._is_owner = False
        await self._stop(lanes)  # before taking it again: what is at work would pass for an orphan
        self._is_owner = await asyncio.to_thread(self._take_over)
        return self._is_owner

    def _take_over(self) -> bool:
        if not self._ownership.take():
            return False
        try:
            with self._context.database.transaction() as session:
                recovered = claims.recover(session)
        except BaseException:
            self._ownership.release()
            raise
        log.info("dispatching", worker=self._worker, interrupted_pages=recovered)
        return True

    async def _drop_lost(self, lanes: list[Lane]) -> None:
        """Stops work on pages that were cancelled, deleted or taken over; looks for strays now and then."""
        at_work = {token: task for lane in lanes for token, task in lane.at_work.items()}
        is_stray_look = time.monotonic() >= self._next_stray_look
        if not at_work and not is_stray_look:
            return
        if is_stray_look:
            self._next_stray_look = time.monotonic() + claims.STRAY_AFTER.total_seconds()
        for token in await asyncio.to_thread(self._look_at_claims, list(at_work), is_stray_look):
            at_work[token].cancel()

    def _look_at_claims(self, tokens: list[str], is_stray_look: bool) -> set[str]:
        lost: set[str] = set()
        if tokens:
            with self._context.database.reading() as session:
                lost = claims.lost(session, tokens)
        if is_stray_look:
            with self._context.database.transaction() as session:
                strays = claims.requeue_strays(session, self._worker, tokens)
            if strays:
                log.warning("requeued pages that nobody worked on", pages=strays)
        return lost

    async def _fill(self, lane: Lane) -> None:
        while not lane.is_full and self._context.engines.is_ready(lane.engine):
            claim = await self._claim(lane)
            if claim is None:
                return
            lane.at_work[claim.token] = asyncio.create_task(self._execute(lane, claim))

    async def _claim(self, lane: Lane) -> Claim | None:
        claiming = asyncio.create_task(asyncio.to_thread(self._claim_next, lane))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(Exception):  # the thread goes on: what it claims must be there when `_stop` releases
                await claiming
            raise

    def _claim_next(self, lane: Lane) -> Claim | None:
        with self._context.database.transaction() as session:
            waiting = claims.waiting(session, lane.engine.capability.name)
            if not waiting:
                return None
            tenant_id, job_id = lane.choose(waiting)
            return claims.claim(session, self._worker, tenant_id, job_id)

    async def _execute(self, lane: Lane, claim: Claim) -> None:
        try:
            await execute(self._context, claim, lane.engine, lane.slots)
        except Unavailable as error:
            log.warning("page waits", page=claim.page_id, reason=error.message)
            lane.paused_until = time.monotonic() + _PAUSE_SECONDS
            await asyncio.to_thread(self._release, claim, is_suspect=getattr(error, "is_suspect", False))
        except Exception:
            log.exception("page failed", page=claim.page_id, job=claim.ended.job_id)
            await settle(self._context, claim, internal_failure(claim))
        finally:
            lane.at_work.pop(claim.token, None)
            self._context.notices.announce(claim.ended.job_id)

    async def _stop(self, lanes: list[Lane]) -> None:
        tasks = [task for lane in lanes for task in lane.at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in lanes:
            lane.at_work.clear()
        if tasks or self._is_owner:
            await asyncio.to_thread(self._release_all)

    def _release(self, claim: Claim, *, is_suspect: bool) -> None:
        try:
            with self._context.database.transaction() as session:
                claims.release(session, claim, is_suspect=is_suspect)
        except Unavailable as error:
            log.warning("page stays claimed until the next look for strays", page=claim.page_id, reason=error.message)

    def _release_all(self) -> None:
        try:
            with self._context.database.transaction() as session:
                claims.release_all(session, self._worker)
        except Unavailable as error:
            log.warning("pages stay claimed until the next start", reason=error.message)

    async def _sweep(self) -> None:
        while True:
            if self._is_owner:
                try:
                    swept = await asyncio.to_thread(sweep_blobs, self._context)
                except (Unavailable, OSError) as error:
                    log.warning("did not sweep", reason=type(error).__name__)
                else:
                    log.info("swept", documents=swept)
            await asyncio.sleep(_SWEEP_SECONDS if self._is_owner else _LOOK_SECONDS)
