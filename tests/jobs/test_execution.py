"""Story 2: each page ends in exactly one stored outcome, counted once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from portal.domain import JobState, PageState
from portal.engine import fakes
from portal.errors import EngineError
from portal.jobs import dispatch
from portal.jobs.queries import JobView, export_job, get_job, page_text, page_view_path, wait
from portal.jobs.submission import Order
from portal.results.export import ExportFormat
from tests.jobs.conftest import Bench, dispatching
from tests.ledger import assert_books_agree, limit_tenant, page_ends


def _usage(bench: Bench, job: JobView) -> list[tuple[str, int]]:
    with bench.context.database.reading() as session:
        assert_books_agree(session)
        return page_ends(session, job.id)


def test_text_is_stored_and_counted_when_pages_are_read(bench: Bench) -> None:
    bench.engine.script = [fakes.answers("Total 9.00")]
    [job] = bench.run(bench.submit(pages=2))
    assert job.state is JobState.SUCCEEDED
    assert (job.pages_done, job.pages_failed, job.eta_seconds) == (2, 0, None)
    text = page_text(bench.context, bench.alice.tenant_id, job.id, 2)
    assert text is not None
    assert text.text == "Total 9.00"
    assert page_view_path(bench.context, bench.alice.tenant_id, job.id, 1).read_bytes()[:2] == b"\xff\xd8"
    assert _usage(bench, job) == [("read", 1)] * 2
    assert b"Total 9.00" in b"".join(export_job(bench.context, bench.alice.tenant_id, job.id, ExportFormat.TXT).chunks)
    assert not list((bench.folder / "data").rglob("*.png")), "scratch images are removed"


def test_blank_page_is_not_charged(bench: Bench) -> None:
    bench.engine.script = [fakes.blank()]
    [job] = bench.run(bench.submit())
    assert (job.state, job.counts.blank) == (JobState.SUCCEEDED, 1)
    assert _usage(bench, job) == [("blank", 0)]


def test_sample_is_read_and_not_charged(bench: Bench) -> None:
    [job] = bench.run(bench.submit(pages=2, order=Order(is_sample=True)))
    assert (job.state, job.is_sample) == (JobState.SUCCEEDED, True)
    assert _usage(bench, job) == [("sample", 0)] * 2
    [paid] = bench.run(bench.submit())
    assert not paid.is_sample


def test_job_is_partial_when_one_page_fails_for_good(bench: Bench) -> None:
    job = bench.submit(pages=3)
    path = bench.context.storage.page_image_path(bench.alice.tenant_id, job.documents[0].id, 2)
    bench.engine.scripts[path] = [fakes.fails(is_permanent=True, message="Page is too dark.\0")]
    [job] = bench.run(job)
    assert job.state is JobState.PARTIAL
    assert [page.state for page in job.pages] == [PageState.SUCCEEDED, PageState.FAILED, PageState.SUCCEEDED]
    error = job.pages[1].error
    assert error is not None
    assert (error.code, error.message) == ("engine_failed", "Page is too dark.")
    assert error.remedy
    assert [entry[:2] for entry in _usage(bench, job)] == [("read", 1), ("failed", 0), ("read", 1)]
    assert bench.engine.calls[path] == 1


def test_page_is_read_when_the_engine_stumbles_once(bench: Bench) -> None:
    bench.engine.script = [fakes.fails(), fakes.answers("second call")]
    [job] = bench.run(bench.submit())
    assert (job.state, job.pages[0].attempt) == (JobState.SUCCEEDED, 2)
    assert _usage(bench, job) == [("read", 1)]


def test_page_fails_when_the_engine_always_stumbles(sqlite_bench: Bench) -> None:
    settings = sqlite_bench.context.settings
    patient = replace(settings, engine=settings.engine.model_copy(update={"page_seconds": 60}))  # its pauses last 2 s
    bench = replace(sqlite_bench, context=replace(sqlite_bench.context, settings=patient))
    bench.engine.script = [fakes.fails()]
    [job] = bench.run(bench.submit())
    assert (job.state, job.pages[0].attempt) == (JobState.FAILED, 3)


def test_page_fails_when_the_engine_hangs(sqlite_bench: Bench) -> None:
    sqlite_bench.engine.script = [fakes.hangs()]
    [job] = sqlite_bench.run(sqlite_bench.submit())
    assert job.state is JobState.FAILED
    assert job.pages[0].error is not None
    assert job.pages[0].error.code == "page_timeout"


def test_other_pages_go_on_when_the_engine_has_a_bug(sqlite_bench: Bench) -> None:
    job = sqlite_bench.submit(pages=2)
    path = sqlite_bench.context.storage.page_image_path(sqlite_bench.alice.tenant_id, job.documents[0].id, 1)
    sqlite_bench.engine.scripts[path] = [fakes.crashes()]
    [job] = sqlite_bench.run(job)
    assert job.state is JobState.PARTIAL
    assert job.pages[0].error is not None
    assert job.pages[0].error.code == "internal"
    assert "bug" not in job.pages[0].error.message


def test_garbage_is_stored_as_it_is(bench: Bench) -> None:
    bench.engine.script = [fakes.garbage()]
    [job] = bench.run(bench.submit())
    assert job.state is JobState.SUCCEEDED
    for format in (ExportFormat.TXT, ExportFormat.MARKDOWN, ExportFormat.JSON):
        assert b"aaaa" in b"".join(export_job(bench.context, bench.alice.tenant_id, job.id, format).chunks)


def test_page_that_cannot_be_rendered_fails_alone(sqlite_bench: Bench) -> None:
    job = sqlite_bench.submit(pages=2)
    source = sqlite_bench.context.storage.source_path(sqlite_bench.alice.tenant_id, job.documents[0].id)
    source.write_bytes(source.read_bytes()[:300])
    [job] = sqlite_bench.run(job)
    assert job.is_final
    assert {page.error.code for page in job.pages if page.error} == {"file_corrupt"}
    assert job.pages[1].state is PageState.FAILED


def test_accepted_work_waits_when_storage_is_away(sqlite_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_PAUSE_SECONDS", 0.5)
    job = sqlite_bench.submit(pages=3)
    tenants = sqlite_bench.folder / "data" / "tenants"
    away = tenants.with_name("away")
    tenants.rename(away)

    async def back_later() -> JobView:
        async with dispatching(sqlite_bench.context):
            await asyncio.sleep(0.4)
            assert get_job(sqlite_bench.context, sqlite_bench.alice.tenant_id, job.id).pages_failed == 0
            away.rename(tenants)
            return await wait(sqlite_bench.context, sqlite_bench.alice.tenant_id, job.id, 20)

    after = asyncio.run(back_later())
    assert after.state is JobState.SUCCEEDED
    assert [page.attempt for page in after.pages] == [1, 1, 1]


def test_page_fails_when_its_file_alone_is_gone(sqlite_bench: Bench) -> None:
    job = sqlite_bench.submit()
    sqlite_bench.context.storage.source_path(sqlite_bench.alice.tenant_id, job.documents[0].id).unlink()
    [job] = sqlite_bench.run(job)
    assert job.pages[0].error is not None
    assert job.pages[0].error.code == "file_missing"


def test_lines_to_check_are_counted_when_a_page_is_stored(bench: Bench) -> None:
    bench.engine.check_below = 0.95
    bench.engine.script = [fakes.answers("Total\n9.00")]
    [job] = bench.run(bench.submit())
    assert [page.lines_to_check for page in job.pages] == [2]
    bench.engine.check_below = None
    [job] = bench.run(bench.submit())
    assert [page.lines_to_check for page in job.pages] == [None]


@pytest.mark.parametrize(
    ("code", "cost"),
    [
        ("engine_image_refused", ("failed_over_cap", 1)),
        ("engine_failed", ("failed_over_cap", 1)),
        ("fields_too_costly", ("failed_over_cap", 1)),
        ("engine_unauthorized", ("failed", 0)),
        ("engine_model_unknown", ("failed", 0)),
        ("page_timeout", ("failed", 0)),
    ],
)
def test_only_what_the_page_itself_is_to_blame_for_costs_past_the_days_cap(
    bench: Bench, code: str, cost: tuple[str, int]
) -> None:
    limit_tenant(bench.context.database, bench.alice.tenant_id, uncharged_pages_per_day=0)
    bench.engine.script = [fakes.Step(error=EngineError("No.", is_permanent=True, code=code))]
    [job] = bench.run(bench.submit())
    assert _usage(bench, job) == [cost]
