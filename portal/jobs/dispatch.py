"""The in-process dispatcher: when a slot frees, the tenant whose turn it is gets it.

Its truth is the database; what it keeps in memory are the virtual clocks and the pages under way. One process
for a database dispatches (`ownership`); on taking over it requeues what a dead one left running.
"""

from __future__ import annotations

import asyncio
import os
import platform
import secrets

import structlog

from portal.engine.base import Engine
from portal.errors import PortalError, Unavailable
from portal.jobs import claims
from portal.jobs.claims import Claim
from portal.jobs.context import JobContext
from portal.jobs.execution import execute, internal_failure, release, store
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
        self.at_work: set[asyncio.Task[None]] = set()
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
            await _stop(lanes)
            self._ownership.release()

    async def _round(self, lanes: list[Lane]) -> None:
        try:
            if not await self._may_dispatch():
                await _stop(lanes)
                return
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

    async def _fill(self, lane: Lane) -> None:
        while not lane.is_full and self._context.engines.is_ready(lane.engine):
            claim = await self._claim(lane)
            if claim is None:
                return
            task = asyncio.create_task(self._execute(lane, claim))
            lane.at_work.add(task)
            task.add_done_callback(lane.at_work.discard)

    async def _claim(self, lane: Lane) -> Claim | None:
        claiming = asyncio.create_task(asyncio.to_thread(self._claim_next, lane))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:  # the thread goes on and may claim a page that nobody would read
            claim = await claiming
            if claim is not None:
                await asyncio.to_thread(release, self._context, claim)
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
            await asyncio.to_thread(store, self._context, claim, internal_failure(claim))
            self._context.notices.announce()

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


async def _stop(lanes: list[Lane]) -> None:
    tasks = [task for lane in lanes for task in lane.at_work]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
