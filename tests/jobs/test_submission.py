"""Story 1: what is accepted is stored whole; what is refused leaves nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from models import AuditEntry, DocumentRow, Job, Page, RefusalCount
from portal.documents.intake import Upload
from portal.domain import JobState, PageState, Scope, Task, TaskPrompt
from portal.errors import (
    Busy,
    DocumentRefused,
    Forbidden,
    InvalidRequest,
    LimitReached,
    TaskUnavailable,
    Unauthenticated,
)
from portal.jobs.queries import get_job, list_jobs
from portal.jobs.submission import Order, submit
from tests.jobs.conftest import Bench, with_ended_key
from tests.ledger import assert_books_agree, limit_tenant


def test_a_plans_own_limits_bind_and_name_the_plan(bench: Bench) -> None:
    tenant_id = bench.alice.tenant_id
    limit_tenant(bench.context.database, tenant_id, max_document_pages=2)
    with pytest.raises(
        DocumentRefused, match=r"scan.tiff: the file has 3 pages; the limit is 2 by your plan \(standard\)"
    ):
        bench.submit(pages=3)
    bench.submit(bench.charlie, pages=3)
    limit_tenant(bench.context.database, tenant_id, max_file_bytes=100)
    with pytest.raises(DocumentRefused, match="by your plan") as refused:
        bench.submit()
    assert refused.value.code == "file_too_large"
    assert "Usage page" in refused.value.remedy
    assert _rows(bench) == (1, 1, 3)
    with bench.context.database.reading() as session:
        assert_books_agree(session)


def _rows(bench: Bench) -> tuple[int, int, int]:
    with bench.context.database.reading() as session:
        counts = [session.scalar(select(func.count()).select_from(table)) or 0 for table in (DocumentRow, Job, Page)]
    return counts[0], counts[1], counts[2]


def _blobs(bench: Bench) -> list[Path]:
    return [path for path in (bench.folder / "data").rglob("*") if path.is_file()]


def test_pages_wait_when_files_are_submitted(bench: Bench) -> None:
    uploads = [bench.upload("a.png"), bench.upload("b.tiff", pages=3)]
    job = submit(bench.context, bench.alice, uploads, Order())
    assert job.state is JobState.QUEUED
    assert [(page.position, page.number, page.file_name) for page in job.pages] == [
        (1, 1, "a.png"),
        (2, 1, "b.tiff"),
        (3, 2, "b.tiff"),
        (4, 3, "b.tiff"),
    ]
    assert {page.state for page in job.pages} == {PageState.QUEUED}
    assert job.pages_ahead == 0
    assert job.eta_seconds is not None
    assert (job.submitted_by, job.via) == ("alice@acme.example", "browser")
    assert _rows(bench) == (2, 1, 4)
    assert len(_blobs(bench)) == 2
    with bench.context.database.reading() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "job.submitted")).one()
        assert (entry.target, entry.details["pages"]) == (job.id, 4)


def test_only_chosen_pages_wait_when_numbers_are_given(sqlite_bench: Bench) -> None:
    job = sqlite_bench.submit(pages=5, order=Order(page_numbers=(4, 2, 2)))
    assert [page.number for page in job.pages] == [2, 4]


def test_nothing_is_stored_when_one_file_is_refused(bench: Bench) -> None:
    bad = bench.folder / "upload-bad"
    bad.write_bytes(b"not an image")
    with pytest.raises(DocumentRefused, match=r"bad\.png") as refused:
        submit(bench.context, bench.alice, [bench.upload(), Upload("bad.png", bad)], Order())
    assert refused.value.code == "file_type_unknown"
    assert _rows(bench) == (0, 0, 0)
    assert _blobs(bench) == []


@pytest.mark.parametrize("numbers", [(0,), (2,), ()])
def test_nothing_is_stored_when_a_page_is_out_of_range(sqlite_bench: Bench, numbers: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sqlite_bench.submit(order=Order(page_numbers=numbers))
    assert refused.value.code == "page_out_of_range"
    assert _rows(sqlite_bench) == (0, 0, 0)


def test_tenant_is_told_when_as_many_pages_as_it_may_are_in_flight(bench: Bench) -> None:
    limit_tenant(bench.context.database, bench.alice.tenant_id, pages_in_flight=100)
    for _ in range(10):
        bench.submit(pages=10)
    with pytest.raises(LimitReached) as refused:
        bench.submit(bench.bob)
    assert (refused.value.code, refused.value.limit, refused.value.used) == (
        "too_many_in_flight",
        "pages_in_flight",
        100,
    )
    assert refused.value.retry_after_seconds is not None
    assert _rows(bench) == (10, 10, 100)
    assert bench.submit(bench.charlie, pages=100).page_count == 100


def test_newcomer_has_a_reserve_when_the_backlog_is_full(bench: Bench) -> None:
    for who in (bench.alice, bench.charlie):
        for _ in range(10):
            bench.submit(who, pages=10)
    assert bench.submit(bench.dora, pages=20).page_count == 20
    with pytest.raises(Busy) as refused:
        bench.submit(bench.dora)
    assert refused.value.retry_after_seconds is not None
    assert refused.value.retry_after_seconds >= 1


def _accepted_of(jobs: int, bench: Bench, *, pages: int, refusal: type[Exception]) -> int:
    """How many of so many jobs, sent by eight at once, are accepted; the others are refused so."""

    def submitted(_: int) -> bool:
        try:
            bench.submit(pages=pages)
        except refusal:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        return sum(threads.map(submitted, range(jobs)))


def test_limit_is_never_passed_when_many_submit_at_once(bench: Bench) -> None:
    limit_tenant(bench.context.database, bench.alice.tenant_id, pages_per_day=100)

    assert _accepted_of(16, bench, pages=10, refusal=LimitReached) == 10
    assert _rows(bench) == (10, 10, 100)
    with bench.context.database.reading() as session:
        assert_books_agree(session)
        refusals = session.scalars(select(RefusalCount)).all()
    assert [(count.limit_name, count.requests) for count in refusals] == [("pages_per_day", 6)]


def test_backlog_is_never_passed_when_many_submit_at_once(bench: Bench) -> None:
    bench.submit(pages=40)

    assert _accepted_of(12, bench, pages=20, refusal=Busy) == 8
    assert _rows(bench) == (9, 9, 200)
    with bench.context.database.reading() as session:
        assert_books_agree(session)


@pytest.mark.parametrize("end", ["revoked_at", "expires_at"])
def test_nothing_is_stored_when_the_key_has_ended_meanwhile(bench: Bench, end: str) -> None:
    with pytest.raises(Unauthenticated):
        bench.submit(with_ended_key(bench, end))
    assert _rows(bench) == (0, 0, 0)
    assert _blobs(bench) == []


def test_document_larger_than_the_backlog_is_refused_for_good(sqlite_bench: Bench) -> None:
    settings = replace(
        sqlite_bench.context.settings,
        engine=sqlite_bench.context.settings.engine.model_copy(update={"max_backlog_pages": 6}),
    )
    context = replace(sqlite_bench.context, settings=settings)
    with pytest.raises(InvalidRequest) as refused:
        submit(context, sqlite_bench.alice, [sqlite_bench.upload(pages=7)], Order())
    assert refused.value.code == "too_many_pages"
    assert _blobs(sqlite_bench) == []


def test_pages_are_told_as_at_least_when_files_were_not_opened_yet(sqlite_bench: Bench) -> None:
    limit_tenant(sqlite_bench.context.database, sqlite_bench.alice.tenant_id, pages_per_day=2)
    with pytest.raises(LimitReached, match=r"needs 5 pages, and your tenant may have 2 read in a day"):
        sqlite_bench.submit(pages=5)
    sqlite_bench.submit(pages=2)
    with pytest.raises(LimitReached, match=r"0 of 2 pages are left today, and this needs at least 1\."):
        sqlite_bench.submit(pages=2)
    assert _rows(sqlite_bench) == (1, 1, 2)


def test_refused_with_the_engines_reason_when_it_cannot_do_the_task(sqlite_bench: Bench) -> None:
    with pytest.raises(TaskUnavailable, match="reads text only"):
        sqlite_bench.submit(order=Order(prompt=TaskPrompt(Task.TRANSLATE)))
    with pytest.raises(InvalidRequest) as refused:
        sqlite_bench.submit(order=Order(engine="gpt"))
    assert refused.value.code == "unknown_model"


def test_refused_when_the_key_has_no_scope(sqlite_bench: Bench) -> None:
    reader = replace(sqlite_bench.alice, scopes=frozenset({Scope.READ}))
    with pytest.raises(Forbidden):
        sqlite_bench.submit(reader)


def test_colleagues_see_the_job_and_strangers_do_not(bench: Bench) -> None:
    job = bench.submit(bench.alice)
    assert get_job(bench.context, bench.bob.tenant_id, job.id).id == job.id
    assert [view.id for view in list_jobs(bench.context, bench.bob.tenant_id)] == [job.id]
    assert list_jobs(bench.context, bench.charlie.tenant_id) == []
    with pytest.raises(Exception, match="no such job"):
        get_job(bench.context, bench.charlie.tenant_id, job.id)


def test_list_goes_on_where_it_stopped_when_paged(bench: Bench) -> None:
    ids = [bench.submit().id for _ in range(5)]
    first = [view.id for view in list_jobs(bench.context, bench.alice.tenant_id, limit=2)]
    rest = [view.id for view in list_jobs(bench.context, bench.alice.tenant_id, limit=10, before=first[-1])]
    assert first + rest == ids[::-1]
