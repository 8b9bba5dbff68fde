"""Failed pages read again: what changes, what stays, and that no page is ever charged twice."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from models import AuditEntry, Job, LedgerEntry, Page
from portal.domain import JobState, PageState, Scope
from portal.engine import fakes
from portal.errors import Busy, Conflict, Forbidden, InvalidRequest, LimitReached, NotFound, PortalError
from portal.jobs import claims, handbacks
from portal.jobs.claims import Ending
from portal.jobs.context import JobContext
from portal.jobs.endings import cancel
from portal.jobs.history import look
from portal.jobs.queries import JobView, get_job
from portal.jobs.retry import retry
from tests.jobs.conftest import Bench
from tests.ledger import assert_books_agree, limit_tenant, page_ends

FAILED = Ending(PageState.FAILED, "failed", 1, error=("engine_failed", "It failed.", "Retry it."))
READ = Ending(PageState.SUCCEEDED, "read", 1, result={"text": "read"})


def _partial(bench: Bench, pages: int = 3, failing: tuple[int, ...] = (2,)) -> JobView:
    """A job that is over, whose pages at these positions failed."""
    job = bench.submit(pages=pages)
    paths = [
        bench.context.storage.page_image_path(bench.alice.tenant_id, job.documents[0].id, position)
        for position in failing
    ]
    bench.engine.scripts.update({path: [fakes.fails(is_permanent=True), fakes.answers("at last")] for path in paths})
    [job] = bench.run(job)
    return job


def _entries(bench: Bench, job: JobView) -> list[tuple[str, int]]:
    with bench.context.database.reading() as session:
        return page_ends(session, job.id)


@pytest.mark.parametrize("positions", [None, [2]])
def test_failed_page_is_read_and_charged_once_when_retried(bench: Bench, positions: list[int] | None) -> None:
    job = _partial(bench)
    assert job.state is JobState.PARTIAL
    look(bench.context, bench.alice.tenant_id, job)
    waiting = retry(bench.context, bench.bob, job.id, positions)
    assert (waiting.state, waiting.finished_at, waiting.is_looked_at) == (JobState.RUNNING, None, False)
    again = waiting.pages[1]
    assert (again.state, again.error, again.attempt, again.seconds) == (PageState.QUEUED, None, 1, None)
    assert _entries(bench, job) == [("read", 1), ("failed", 0), ("read", 1)]

    [done] = bench.run(waiting)
    assert (done.state, done.pages[1].attempt, done.pages_charged) == (JobState.SUCCEEDED, 2, 3)
    assert _entries(bench, job) == [("read", 1), ("failed", 0), ("read", 1), ("read", 1)]
    assert [sum(bench.engine.calls.values()), len(bench.engine.calls)] == [4, 3]
    with bench.context.database.reading() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "job.retried")).one()
    assert (entry.actor, entry.target, entry.details["pages"]) == ("bob@acme.example", job.id, 1)


def test_only_the_chosen_page_waits_when_others_failed_too(bench: Bench) -> None:
    job = _partial(bench, failing=(1, 3))
    waiting = retry(bench.context, bench.alice, job.id, [3])
    assert [page.state.value for page in waiting.pages] == ["failed", "succeeded", "queued"]
    assert _entries(bench, job) == [("failed", 0), ("read", 1), ("failed", 0)]
    [done] = bench.run(waiting)
    assert (done.state, done.pages_failed) == (JobState.PARTIAL, 1)
    with pytest.raises(Conflict) as refusal:
        retry(bench.context, bench.alice, job.id, [3])
    assert refusal.value.code == "page_not_failed"


def test_failed_page_can_be_retried_while_the_job_goes_on(sqlite_bench: Bench) -> None:
    job = sqlite_bench.submit(pages=2)
    with sqlite_bench.context.database.transaction() as session:
        held = claims.claim(session, "worker", sqlite_bench.alice.tenant_id, job.id)
        assert held is not None
        claims.store(session, held, FAILED)
    waiting = retry(sqlite_bench.context, sqlite_bench.alice, job.id, [1])
    assert (waiting.state, waiting.counts.queued) == (JobState.RUNNING, 2)
    [done] = sqlite_bench.run(waiting)
    assert (done.state, done.pages_charged) == (JobState.SUCCEEDED, 2)


def test_nothing_changes_when_a_retry_is_refused(bench: Bench) -> None:
    job = _partial(bench)
    before = _entries(bench, job)
    refusals: list[tuple[type[Exception], object, list[int] | None]] = [
        (NotFound, bench.charlie, None),
        (Forbidden, replace(bench.alice, scopes=frozenset({Scope.READ})), None),
        (Conflict, bench.alice, [1]),
        (InvalidRequest, bench.alice, [4]),
        (InvalidRequest, bench.alice, [2, 2**40]),
        (InvalidRequest, bench.alice, []),
    ]
    for error, who, positions in refusals:
        with pytest.raises(error):
            retry(bench.context, who, job.id, positions)  # type: ignore[arg-type]
    assert get_job(bench.context, bench.alice.tenant_id, job.id).state is JobState.PARTIAL
    assert _entries(bench, job) == before


def test_retry_waits_its_turn_when_too_much_waits(sqlite_bench: Bench) -> None:
    job = _partial(sqlite_bench)
    limits = sqlite_bench.context.settings.engine.model_copy(update={"max_backlog_pages": 7})
    context = replace(sqlite_bench.context, settings=replace(sqlite_bench.context.settings, engine=limits))
    sqlite_bench.submit()
    sqlite_bench.submit(sqlite_bench.charlie, pages=6)
    _assert_refused(sqlite_bench, context, job, Busy)


@pytest.mark.parametrize("limit", [{"pages_in_flight": 1}, {"pages_per_day": 3}, {"requests_per_minute": 2}])
def test_retry_is_refused_when_a_limit_binds(sqlite_bench: Bench, limit: dict[str, int]) -> None:
    job = _partial(sqlite_bench)
    sqlite_bench.submit()
    limit_tenant(sqlite_bench.context.database, sqlite_bench.alice.tenant_id, **limit)
    _assert_refused(sqlite_bench, sqlite_bench.context, job, LimitReached)


def _assert_refused(bench: Bench, context: JobContext, job: JobView, refusal: type[PortalError]) -> None:
    before = _entries(bench, job)
    with pytest.raises(refusal):
        retry(context, bench.alice, job.id)
    assert get_job(context, bench.alice.tenant_id, job.id).state is JobState.PARTIAL
    assert _entries(bench, job) == before
    with context.database.reading() as session:
        assert_books_agree(session)


def test_withdrawn_retry_leaves_the_page_failed_as_it_was(bench: Bench) -> None:
    job = _partial(bench)
    before = _entries(bench, job)
    retry(bench.context, bench.alice, job.id)
    back = cancel(bench.context, bench.bob, job.id)
    assert (back.state, back.pages[1].state) == (JobState.PARTIAL, PageState.FAILED)
    assert back.pages[1].error == job.pages[1].error is not None
    assert back.is_looked_at
    assert _entries(bench, job) == before
    with pytest.raises(Conflict):
        cancel(bench.context, bench.alice, job.id)

    [done] = bench.run(retry(bench.context, bench.alice, job.id))
    assert (done.state, done.pages_charged) == (JobState.SUCCEEDED, 3)
    assert _entries(bench, job) == [("read", 1), ("failed", 0), ("read", 1), ("read", 1)]


def test_only_the_untried_page_is_cancelled_when_a_retry_is_withdrawn(sqlite_bench: Bench) -> None:
    context, alice = sqlite_bench.context, sqlite_bench.alice
    job = sqlite_bench.submit(pages=2)
    with context.database.transaction() as session:
        held = claims.claim(session, "worker", alice.tenant_id, job.id)
        assert held is not None
        claims.store(session, held, FAILED)
    retry(context, alice, job.id)
    with context.database.transaction() as session:
        again = claims.claim(session, "worker", alice.tenant_id, job.id)
    ended = cancel(context, alice, job.id)
    assert [page.state.value for page in ended.pages] == ["failed", "cancelled"]
    with context.database.transaction() as session:
        assert again is not None
        assert not claims.store(session, again, READ)
    assert _entries(sqlite_bench, job) == [("failed", 0)]


def test_cancelled_pages_stay_when_a_cancelled_job_is_retried(bench: Bench) -> None:
    job = bench.submit(pages=3)
    with bench.context.database.transaction() as session:
        held = claims.claim(session, "worker", bench.alice.tenant_id, job.id)
        assert held is not None
        claims.store(session, held, FAILED)
    cancel(bench.context, bench.alice, job.id)
    [done] = bench.run(retry(bench.context, bench.alice, job.id))
    assert done.state is JobState.CANCELLED
    assert [page.state.value for page in done.pages] == ["succeeded", "cancelled", "cancelled"]
    with pytest.raises(Conflict) as refusal:
        retry(bench.context, bench.alice, job.id)
    assert refusal.value.code == "nothing_to_retry"


def test_retried_page_is_resumed_when_its_process_dies_once(bench: Bench) -> None:
    job = _partial(bench)
    with bench.context.database.transaction() as session:
        session.execute(
            update(Page).where(Page.job_id == job.id, Page.position == 2).values(attempt=handbacks.MAX_CLAIMS + 1)
        )
    retry(bench.context, bench.alice, job.id)
    with bench.context.database.transaction() as session:
        claims.claim(session, "dead", bench.alice.tenant_id, job.id)
        handbacks.recover(session)
    [done] = bench.run(get_job(bench.context, bench.alice.tenant_id, job.id))
    assert done.state is JobState.SUCCEEDED


_STEPS = st.lists(st.sampled_from(("fail", "read", "release", "die", "retry", "cancel")), max_size=14)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_a_page_is_charged_at_most_once_whatever_happens_to_it(sqlite_bench: Bench, steps: list[str]) -> None:
    context, alice = sqlite_bench.context, sqlite_bench.alice
    with context.database.transaction() as session:  # jobs of examples before
        session.execute(update(Page).values(state="cancelled"))
        session.execute(update(Job).values(state="cancelled"))
    job = sqlite_bench.submit(pages=2)
    for step in steps:
        _take(sqlite_bench, job, step)
        with context.database.reading() as session:
            pages = session.scalars(select(Page).where(Page.job_id == job.id)).all()
            posted = select(LedgerEntry.page_id).where(LedgerEntry.job_id == job.id, LedgerEntry.kind == "posted")
            charged = session.scalars(posted).all()
            assert_books_agree(session)
        assert sorted(charged) == sorted(page.id for page in pages if page.state == PageState.SUCCEEDED)
        shown = get_job(context, alice.tenant_id, job.id)
        assert shown.is_final == (not shown.counts.queued + shown.counts.running)


def _take(bench: Bench, job: JobView, step: str) -> None:
    context, alice = bench.context, bench.alice
    if step in ("retry", "cancel"):
        act = retry if step == "retry" else cancel
        with contextlib.suppress(Conflict):
            act(context, alice, job.id)
        return
    with context.database.transaction() as session:
        held = claims.claim(session, "worker", alice.tenant_id, job.id)
        if held is None:
            return
        if step == "release":
            handbacks.release(session, held)
        elif step == "die":
            handbacks.recover(session)
        else:
            claims.store(session, held, FAILED if step == "fail" else READ)
