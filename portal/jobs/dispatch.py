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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog

from models.base import now
from portal.domain import Task
from portal.engine.base import Engine
from portal.errors import Unavailable
from portal.jobs import claims, handbacks
from portal.jobs.claims import Claim
from portal.jobs.context import JobContext
from portal.jobs.engine_watch import watch
from portal.jobs.execution import EngineAway, PageWaits, execute, internal_failure, settle
from portal.jobs.gate import Gate, Turn
from portal.jobs.ownership import Ownership
from portal.jobs.places import Place
from portal.jobs.upkeep import give_back, keep_up
from portal.usage.limits import weights_of

log = structlog.get_logger()

_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 5.0
_SWEEP_SECONDS = 3600.0
_GIVE_BACK_SECONDS = 60.0


class Lane:
    """One engine with its gate and the pages of jobs under way in this process."""

    def __init__(self, engine: Engine, gate: Gate) -> None:
        self.engine = engine
        self.gate = gate
        self.at_work: dict[str, asyncio.Task[None]] = {}  # by claim token
        self.paused_until = 0.0  # of time.monotonic: storage or engine was away

    @property
    def is_paused(self) -> bool:
        """True while no page is begun although there may be a place."""
        return time.monotonic() < self.paused_until


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
        lanes = [Lane(engine, self._context.gates.of(engine)) for engine in self._context.engines.all]
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
                recovered = handbacks.recover(session)
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
            self._next_stray_look = time.monotonic() + handbacks.STRAY_AFTER.total_seconds()
        for token in await asyncio.to_thread(self._look_at_claims, list(at_work), is_stray_look):
            at_work[token].cancel()

    def _look_at_claims(self, tokens: list[str], is_stray_look: bool) -> set[str]:
        lost: set[str] = set()
        if is_stray_look:
            self._drop_readings()
        if tokens:
            with self._context.database.reading() as session:
                lost = handbacks.lost(session, tokens)
        if is_stray_look:
            with self._context.database.transaction() as session:
                strays = handbacks.requeue_strays(session, self._worker, tokens)
            if strays:
                log.warning("requeued pages that nobody worked on", pages=strays)
        return lost

    def _drop_readings(self) -> None:
        """Forgets what was read of pages that do not wait any more: they were cancelled, deleted, or have failed."""
        kept = self._context.kept_readings
        page_ids = kept.page_ids()
        if page_ids:
            with self._context.database.reading() as session:
                kept.drop(handbacks.no_longer_open(session, page_ids))

    async def _fill(self, lane: Lane) -> None:
        if lane.is_paused or not self._context.engines.is_ready(lane.engine):
            lane.gate.look({}, {})  # pages that are not begun now must not keep direct requests waiting
            return
        held_back = lane.gate.held_back
        lane.gate.look(*await asyncio.to_thread(self._waiting, lane.engine, held_back))
        # What was looked at holds only while no more is held back: then it is looked at anew.
        while not lane.is_paused and lane.gate.held_back <= held_back and (turn := lane.gate.next_page()) is not None:
            claim = await self._claim(lane, turn)
            if claim is not None:
                self._begin(lane, claim)

    def _begin(self, lane: Lane, claim: Claim) -> None:
        place = Place(lane.gate, claim.prompt.task)
        task = asyncio.create_task(self._execute(lane, claim, place))
        lane.at_work[claim.token] = task
        # Not in the task itself: one that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda _: self._ended(lane, claim, place))

    def _ended(self, lane: Lane, claim: Claim, place: Place) -> None:
        lane.at_work.pop(claim.token, None)
        place.end()
        self._context.notices.announce(claim.ended.job_id)

    def _waiting(
        self, engine: Engine, held_back: frozenset[Task]
    ) -> tuple[dict[str, dict[str, int]], dict[str, float]]:
        with self._context.database.reading() as session:
            pages = claims.waiting(session, engine.capability.name, without=held_back)
            return pages, weights_of(session, pages.keys(), at=now())

    async def _claim(self, lane: Lane, turn: Turn) -> Claim | None:
        """The next page of the turn's job; its place is given back where there is none any more."""
        claim, weight = None, lane.gate.weight_of(turn.tenant_id)
        try:
            claim = await self._claimed(turn)
        finally:
            if claim is None:
                lane.gate.forget(turn)
                lane.gate.end()
        return claim and replace(claim, weight=weight)

    async def _claimed(self, turn: Turn) -> Claim | None:
        claiming = asyncio.create_task(asyncio.to_thread(self._claim_next, turn))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(Exception):  # the thread goes on: what it claims must be there when `_stop` releases
                await claiming
            raise

    def _claim_next(self, turn: Turn) -> Claim | None:
        with self._context.database.transaction() as session:
            taken = claims.take_readings(session, self._context.storage, turn.tenant_id, turn.flow)
            claim = claims.claim(session, self._worker, turn.tenant_id, turn.flow)
        if taken:
            self._context.notices.announce(turn.flow)
        return claim

    async def _execute(self, lane: Lane, claim: Claim, place: Place) -> None:
        try:
            await execute(self._context, claim, lane.engine, place)
        except PageWaits as error:
            log.warning("page waits alone", page=claim.page_id, reason=error.message)
            await asyncio.to_thread(self._postpone, claim, error)
        except Unavailable as error:
            log.warning("page waits", page=claim.page_id, reason=error.message)
            if isinstance(error, EngineAway):
                self._context.engines.mark(lane.engine, error.message)  # until its watch hears it answer again
            else:
                lane.paused_until = time.monotonic() + _PAUSE_SECONDS
            await asyncio.to_thread(self._release, claim, is_suspect=getattr(error, "is_suspect", False))
        except Exception:
            log.exception("page failed", page=claim.page_id, job=claim.ended.job_id)
            await settle(self._context, claim, internal_failure(claim))

    async def _stop(self, lanes: list[Lane]) -> None:
        tasks = [task for lane in lanes for task in lane.at_work.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._context.kept_readings.drop(self._context.kept_readings.page_ids())
        for lane in lanes:
            lane.gate.look({}, {})
        if tasks or self._is_owner:
            await asyncio.to_thread(self._release_all)

    def _release(self, claim: Claim, *, is_suspect: bool) -> None:
        try:
            with self._context.database.transaction() as session:
                handbacks.release(session, claim, is_suspect=is_suspect)
        except Unavailable as error:
            log.warning("page stays claimed until the next look for strays", page=claim.page_id, reason=error.message)

    def _postpone(self, claim: Claim, error: PageWaits) -> None:
        kept = self._context.kept_readings
        if error.failure.page is not None:
            kept.keep(claim.page_id, error.failure.page)  # before the page can be claimed again
        try:
            with self._context.database.transaction() as session:
                is_waiting = handbacks.postpone(session, claim, error.failure)
            if not is_waiting:
                kept.drop([claim.page_id])
        except Unavailable as away:
            log.warning("page stays claimed until the next look for strays", page=claim.page_id, reason=away.message)

    def _release_all(self) -> None:
        try:
            with self._context.database.transaction() as session:
                handbacks.release_all(session, self._worker)
        except Unavailable as error:
            log.warning("pages stay claimed until the next start", reason=error.message)

    async def _sweep(self) -> None:
        next_whole = 0.0
        while True:
            if self._is_owner:
                is_whole = time.monotonic() >= next_whole
                await self._swept(keep_up if is_whole else give_back)
                if is_whole:
                    next_whole = time.monotonic() + _SWEEP_SECONDS
            await asyncio.sleep(_GIVE_BACK_SECONDS if self._is_owner else _LOOK_SECONDS)

    async def _swept(self, sweep: Callable[[JobContext], None]) -> None:
        try:
            await asyncio.to_thread(sweep, self._context)
        except Exception:
            log.exception("sweep failed; trying again later")  # pages must not wait for it
