"""Turns between tenants, recovery after a death, and one dispatcher for a database."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from models import Job, LedgerEntry, Page
from models.base import now
from portal.db import Database
from portal.domain import JobState, PageState
from portal.engine import fakes
from portal.errors import EngineError
from portal.jobs import claims, handbacks
from portal.jobs.dispatch import Dispatcher
from portal.jobs.notices import Notices
from portal.jobs.ownership import Ownership
from portal.jobs.queries import get_job, wait
from tests.jobs.conftest import Bench, dispatching
from tests.ledger import charged


def _claimed_in_order(bench: Bench) -> list[str]:
    with bench.context.database.reading() as session:
        return list(session.scalars(select(Page.job_id).order_by(Page.started_at)))


def test_newcomer_is_claimed_early_when_another_tenant_floods(bench: Bench) -> None:
    flood = bench.submit(bench.alice, pages=12)
    small = bench.submit(bench.charlie, pages=1)
    assert small.pages_ahead == 1
    bench.run(flood, small)
    assert _claimed_in_order(bench).index(small.id) <= 1


def test_own_small_job_is_claimed_early_when_own_archive_waits(sqlite_bench: Bench) -> None:
    archive = sqlite_bench.submit(pages=12)
    receipt = sqlite_bench.submit(pages=1)
    sqlite_bench.run(archive, receipt)
    assert _claimed_in_order(sqlite_bench).index(receipt.id) <= 1


def test_finished_pages_are_not_read_again_when_a_dead_process_left_some_running(bench: Bench) -> None:
    job = bench.submit(pages=3)
    with bench.context.database.transaction() as session:
        first = claims.claim(session, "dead:1", bench.alice.tenant_id, job.id)
        assert first is not None
        claims.store(session, first, claims.Ending(PageState.SUCCEEDED, "read", 1, result={}))
        claims.claim(session, "dead:1", bench.alice.tenant_id, job.id)
    assert get_job(bench.context, bench.alice.tenant_id, job.id).state is JobState.RUNNING
    [job] = bench.run(job)
    assert job.state is JobState.SUCCEEDED
    assert [page.attempt for page in job.pages] == [1, 2, 1]
    assert sum(bench.engine.calls.values()) == 2
    with bench.context.database.reading() as session:
        assert charged(session) == 3


def test_page_is_given_up_when_it_killed_the_portal_often(bench: Bench) -> None:
    job = bench.submit(pages=2)
    with bench.context.database.transaction() as session:
        claims.claim(session, "dead:1", bench.alice.tenant_id, job.id)
        session.execute(update(Page).where(Page.position == 1).values(attempt=handbacks.MAX_CLAIMS))
    [job] = bench.run(job)
    assert job.state is JobState.PARTIAL
    assert job.pages[0].error is not None
    assert job.pages[0].error.code == "interrupted"


def test_pages_go_back_to_the_queue_when_the_portal_stops(bench: Bench) -> None:
    bench.engine.is_held = True
    job = bench.submit(pages=3)

    async def start_and_stop() -> None:
        async with dispatching(bench.context):
            while not bench.engine.order:
                await asyncio.sleep(0.01)

    asyncio.run(start_and_stop())
    job = get_job(bench.context, bench.alice.tenant_id, job.id)
    assert [(page.state, page.attempt) for page in job.pages] == [(PageState.QUEUED, 0)] * 3
    bench.engine.is_held = False
    [job] = bench.run(job)
    assert job.state is JobState.SUCCEEDED


def test_page_is_requeued_when_its_claim_was_never_heard_of(bench: Bench) -> None:
    job = bench.submit(pages=3)
    with bench.context.database.transaction() as session:
        known, _, worn = [claims.claim(session, "me:1", bench.alice.tenant_id, job.id) for _ in range(3)]
        assert known is not None
        assert worn is not None
        session.execute(update(Page).values(started_at=now() - 2 * handbacks.STRAY_AFTER))
        session.execute(update(Page).where(Page.id == worn.page_id).values(attempt=handbacks.MAX_CLAIMS))
        assert handbacks.requeue_strays(session, "me:10", []) == 0
        assert handbacks.requeue_strays(session, "me:1", [known.token]) == 2
    job = get_job(bench.context, bench.alice.tenant_id, job.id)
    assert [page.state for page in job.pages] == [PageState.RUNNING, PageState.QUEUED, PageState.FAILED]


def test_late_outcome_is_dropped_when_the_page_was_taken_over(bench: Bench) -> None:
    job = bench.submit()
    with bench.context.database.transaction() as session:
        late = claims.claim(session, "slow:1", bench.alice.tenant_id, job.id)
        assert late is not None
        handbacks.recover(session)
    [job] = bench.run(job)
    with bench.context.database.transaction() as session:
        assert not claims.store(session, late, claims.Ending(PageState.FAILED, "failed", 1))
    assert get_job(bench.context, bench.alice.tenant_id, job.id).state is JobState.SUCCEEDED
    with bench.context.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(LedgerEntry).where(LedgerEntry.kind == "posted")) == 1


def test_engine_is_never_asked_for_more_than_its_slots(sqlite_bench: Bench) -> None:
    sqlite_bench.engine.slots = 2
    sqlite_bench.engine.script = [fakes.answers("x", seconds=0.02)]
    sqlite_bench.run(sqlite_bench.submit(pages=8))
    assert sqlite_bench.engine.most_at_once == 2


def test_page_is_read_once_when_the_right_to_dispatch_is_lost_in_mid_page(bench: Bench) -> None:
    bench.engine.is_held = True
    job = bench.submit(pages=2)

    async def losing() -> None:
        dispatcher = Dispatcher(bench.context)
        task = asyncio.create_task(dispatcher.run())
        while not bench.engine.order:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(_lose_ownership, bench.context.database, dispatcher)
        while len(bench.engine.order) < 2:
            await asyncio.sleep(0.01)
        bench.engine.is_held = False
        await wait(bench.context, bench.alice.tenant_id, job.id, 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(losing())
    job = get_job(bench.context, bench.alice.tenant_id, job.id)
    assert [page.state for page in job.pages] == [PageState.SUCCEEDED] * 2
    with bench.context.database.reading() as session:
        assert charged(session) == 2


def _lose_ownership(database: Database, dispatcher: Dispatcher) -> None:
    """As when Postgres restarts: the connection that carries the lock is ended by the server."""
    if database.is_sqlite:
        dispatcher._ownership.release()
        return
    with database.engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
        )


def test_dispatch_goes_on_when_recovery_failed_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    recover, calls = handbacks.recover, 0

    def failing_once(session: Session) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("a fault in the recovery")
        return recover(session)

    monkeypatch.setattr(handbacks, "recover", failing_once)
    [job] = bench.run(bench.submit())
    assert job.state is JobState.SUCCEEDED


def test_dispatcher_stops_when_the_database_is_away(sqlite_bench: Bench) -> None:
    async def start_and_stop() -> bool:
        async with asyncio.timeout(15):
            async with dispatching(sqlite_bench.context):
                await asyncio.sleep(0.2)
                sqlite_bench.submit()
                with sqlite_bench.context.database.transaction() as session:
                    session.execute(text("DROP TABLE ledger_entries"))
                    session.execute(text("DROP TABLE pages"))
                await asyncio.sleep(0.2)
        return True

    assert asyncio.run(start_and_stop()), "the stop came to its end within its time"


def test_listener_ends_when_it_is_cancelled_as_it_is_woken() -> None:
    async def cancelled_and_woken() -> bool:
        notices = Notices()
        with notices.listening() as listener:
            task = asyncio.create_task(listener.next(30))
            await asyncio.sleep(0)
            listener.hear("job_1")
            task.cancel()
            return (await asyncio.gather(task, return_exceptions=True))[0] is not None

    assert asyncio.run(cancelled_and_woken())


def test_only_one_may_dispatch_when_two_start(bench: Bench) -> None:
    first, second = Ownership(bench.context.database), Ownership(bench.context.database)
    assert first.take()
    assert not second.take()
    assert first.is_held()
    first.release()
    assert second.take()
    second.release()


def test_listener_hears_its_own_job_only() -> None:
    async def heard(job_id: str) -> bool:
        notices = Notices()
        with notices.listening("job_1") as listener:
            notices.announce(job_id)
            waiting = asyncio.create_task(listener.next(seconds=30))
            done, _ = await asyncio.wait({waiting}, timeout=0.2)
            waiting.cancel()
            return bool(done)

    assert asyncio.run(heard("job_1"))
    assert not asyncio.run(heard("job_2"))


def test_state_of_every_job_is_final_when_nothing_waits(bench: Bench) -> None:
    jobs = [bench.submit(who, pages=pages) for who in (bench.alice, bench.charlie) for pages in (1, 2)]
    bench.run(*jobs)
    with bench.context.database.reading() as session:
        assert {JobState(state).is_final for state in session.scalars(select(Job.state))} == {True}


def test_page_is_read_after_all_when_its_engine_was_away_for_a_while(bench: Bench) -> None:
    away = EngineError("The engine does not answer.", is_permanent=False, code="engine_unavailable")
    bench.engine.script = [fakes.Step(error=away)] * 3 + [fakes.answers("back")]
    [job] = bench.run(bench.submit())
    assert (job.state, job.pages[0].error, job.pages_charged) == (JobState.SUCCEEDED, None, 1)
    assert bench.context.engines.is_ready(bench.engine), "it has answered its probe again"


def test_waiting_job_says_that_its_engine_is_away(sqlite_bench: Bench) -> None:
    context = sqlite_bench.context
    context.engines.mark(sqlite_bench.engine, None)
    job = sqlite_bench.submit()
    assert (job.outlook.binding, job.outlook.detail) == ("engine_slots", None)
    context.engines.mark(sqlite_bench.engine, "it does not answer.")
    outlook = get_job(context, sqlite_bench.alice.tenant_id, job.id).outlook
    assert (outlook.binding, outlook.detail) == ("engine_unavailable", "fake: it does not answer.")
