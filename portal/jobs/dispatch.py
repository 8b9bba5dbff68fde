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

import structlog

from portal.engine.base import Engine
from portal.errors import PortalError, Unavailable
from portal.jobs import claims
from portal.jobs.claims import Claim
from portal.jobs.context import JobContext
from portal.jobs.execution import execute, internal_failure, settle
from portal.jobs.fairness import FairQueue
from portal.jobs.ownership import Ownership
from portal.jobs.pace import PAGES_AHEAD
from portal.jobs.sweep import sweep_blobs

log = structlog.get_logger()

_LOOK_SECONDS = 1.0
_ENGINE_RETRY_SECONDS = 10.0


class Lane:
    """One engine's slots, its pages under way and the fair turns between tenants and between a tenant's jobs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.slots = asyncio.Semaphore(engine.slots)
        self.at_work: dict[str, asyncio.Task[None]] = {}  # by page id
        self._tenants = FairQueue()
        self._jobs: dict[str, FairQueue] = {}

    @property
    def is_full(self) -> bool:
        """True when as many pages are under way as may be."""
        return len(self.at_work) >= self.engine.slots + PAGES_AHEAD

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
                group.create_task(self._start_engine(lane.engine))
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
            if not await self._may_dispatch():
                await self._stop(lanes)
                return
            await self._look_for_strays(lanes)
            for lane in lanes:
                await self._fill(lane)
        except Unavailable as error:
            log.warning("cannot dispatch now", reason=error.message)
        except Exception:
            log.exception("dispatch failed; trying again")

    async def _may_dispatch(self) -> bool:
        if self._is_owner and await asyncio.to_thread(self._ownership.is_held):
            return True
        self._is_owner = False
        if not await asyncio.to_thread(self._ownership.take):
            return False
        try:
            recovered = await asyncio.to_thread(self._recover)
        except PortalError:
            self._ownership.release()
            raise
        self._is_owner = True
        swept = await asyncio.to_thread(sweep_blobs, self._context)
        log.info("dispatching", worker=self._worker, interrupted_pages=recovered, swept_documents=swept)
        return True

    async def _look_for_strays(self, lanes: list[Lane]) -> None:
        if time.monotonic() < self._next_stray_look:
            return
        self._next_stray_look = time.monotonic() + claims.STRAY_AFTER.total_seconds()
        at_work = [page_id for lane in lanes for page_id in lane.at_work]
        strays = await asyncio.to_thread(self._requeue_strays, at_work)
        if strays:
            log.warning("requeued pages that nobody worked on", pages=strays)

    def _requeue_strays(self, at_work: list[str]) -> int:
        with self._context.database.transaction() as session:
            return claims.requeue_strays(session, self._worker, at_work)

    async def _fill(self, lane: Lane) -> None:
        while not lane.is_full and self._context.engines.is_ready(lane.engine):
            claim = await self._claim(lane)
            if claim is None:
                return
            lane.at_work[claim.page_id] = asyncio.create_task(self._execute(lane, claim))

    async def _claim(self, lane: Lane) -> Claim | None:
        claiming = asyncio.create_task(asyncio.to_thread(self._claim_next, lane))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await claiming  # the thread goes on: what it claims must be there when `_stop` releases
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
        except Exception:
            log.exception("page failed", page=claim.page_id, job=claim.ended.job_id)
            await settle(self._context, claim, internal_failure(claim))
        finally:
            lane.at_work.pop(claim.page_id, None)
            self._context.notices.announce()

    async def _stop(self, lanes: list[Lane]) -> None:
        tasks = [task for lane in lanes for task in lane.at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in lanes:
            lane.at_work.clear()
        if tasks or self._is_owner:
            await asyncio.to_thread(self._release_all)

    def _release_all(self) -> None:
        try:
            with self._context.database.transaction() as session:
                claims.release_all(session, self._worker)
        except Unavailable as error:
            log.warning("pages stay claimed until the next start", reason=error.message)

    def _recover(self) -> int:
        with self._context.database.transaction() as session:
            return claims.recover(session)

    async def _start_engine(self, engine: Engine) -> None:
        while True:
            try:
                await engine.start()
            except Exception as error:
                reason = error.message if isinstance(error, PortalError) else "it failed at the start."
                log.error("engine not ready", engine=engine.capability.name, reason=reason, exc_info=True)
                self._context.engines.mark(engine, reason)
                await asyncio.sleep(_ENGINE_RETRY_SECONDS)
            else:
                self._context.engines.mark(engine, None)
                self._context.notices.announce()
                log.info("engine ready", engine=engine.capability.name, slots=engine.slots)
                return
