"""Cancel and delete, by its tenant only, each with the stored rows it leaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from models import AuditEntry, DocumentRow, Job, Page
from portal.domain import JobState, PageState, Scope
from portal.errors import Conflict, Forbidden, NotFound, Unauthenticated
from portal.jobs.endings import cancel, delete
from portal.jobs.queries import get_job
from portal.jobs.retry import retry
from tests.jobs.conftest import Bench, dispatching, with_ended_key
from tests.ledger import charged


def test_waiting_pages_are_dropped_when_the_job_is_cancelled(bench: Bench) -> None:
    job = cancel(bench.context, bench.bob, bench.submit(bench.alice, pages=2).id)
    assert job.state is JobState.CANCELLED
    assert {page.state for page in job.pages} == {PageState.CANCELLED}
    assert cancel(bench.context, bench.alice, job.id).state is JobState.CANCELLED
    with bench.context.database.reading() as session:
        assert charged(session) == 0


def test_page_under_way_is_not_charged_when_the_job_is_cancelled(bench: Bench) -> None:
    bench.engine.is_held = True
    job = bench.submit(pages=2)

    async def cancelled_in_mid_page() -> None:
        async with dispatching(bench.context):
            while not bench.engine.order:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(cancel, bench.context, bench.alice, job.id)
            while bench.engine.calls_now:
                await asyncio.sleep(0.01)

    asyncio.run(cancelled_in_mid_page())
    after = get_job(bench.context, bench.alice.tenant_id, job.id)
    assert after.state is JobState.CANCELLED
    assert {page.state for page in after.pages} == {PageState.CANCELLED}
    with bench.context.database.reading() as session:
        assert charged(session) == 0


def test_cancel_is_refused_when_the_job_is_over(sqlite_bench: Bench) -> None:
    [job] = sqlite_bench.run(sqlite_bench.submit())
    with pytest.raises(Conflict, match="succeeded"):
        cancel(sqlite_bench.context, sqlite_bench.alice, job.id)


def test_rows_and_blobs_go_but_usage_stays_when_a_job_is_deleted(bench: Bench) -> None:
    [job] = bench.run(bench.submit(pages=2))
    delete(bench.context, bench.bob, job.id)
    with pytest.raises(NotFound):
        get_job(bench.context, bench.alice.tenant_id, job.id)
    with bench.context.database.reading() as session:
        left = [session.scalar(select(func.count()).select_from(table)) for table in (Job, Page, DocumentRow)]
        assert left == [0, 0, 0]
        assert charged(session) == 2
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "job.deleted")).one()
        assert (entry.actor, entry.target) == ("bob@acme.example", job.id)
    assert [path for path in (bench.folder / "data").rglob("*") if path.is_file()] == []


def test_delete_is_refused_while_the_job_waits(sqlite_bench: Bench) -> None:
    job = sqlite_bench.submit()
    with pytest.raises(Conflict):
        delete(sqlite_bench.context, sqlite_bench.alice, job.id)


def test_strangers_and_readers_change_nothing(bench: Bench) -> None:
    job = bench.submit(bench.alice)
    for act in (cancel, delete):
        with pytest.raises(NotFound):
            act(bench.context, bench.charlie, job.id)
        with pytest.raises(Forbidden):
            act(bench.context, replace(bench.alice, scopes=frozenset({Scope.READ})), job.id)
    assert get_job(bench.context, bench.alice.tenant_id, job.id).state is JobState.QUEUED


@pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
def test_a_key_changes_no_job_when_it_has_ended_meanwhile(bench: Bench, end: str) -> None:
    [over] = bench.run(bench.submit())
    waiting, key = bench.submit(), with_ended_key(bench, end)
    for act, job in ((cancel, waiting), (delete, over), (retry, over)):
        with pytest.raises(Unauthenticated):
            act(bench.context, key, job.id)
    assert get_job(bench.context, bench.alice.tenant_id, waiting.id).state is JobState.QUEUED
    assert get_job(bench.context, bench.alice.tenant_id, over.id).state is JobState.SUCCEEDED
