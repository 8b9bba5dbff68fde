"""What is shown of jobs is looked up in short reads, however long the job and slow the reader."""

from __future__ import annotations

import json

import pytest

from portal.errors import Conflict, NotFound
from portal.jobs import endings, queries
from portal.jobs.queries import export_job, list_jobs, read_pages
from portal.results.export import ExportFormat
from tests.jobs.conftest import Bench


@pytest.fixture(autouse=True)
def _short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_BATCH_PAGES", 2)


def _in_use(bench: Bench) -> int:
    pool = bench.context.database.engine.pool
    return pool.checkedout()  # type: ignore[attr-defined,no-any-return]


def test_no_connection_is_held_between_the_pages_of_an_export(bench: Bench) -> None:
    [job] = bench.run(bench.submit(pages=5))
    before = _in_use(bench)
    made = export_job(bench.context, bench.alice.tenant_id, job.id, ExportFormat.JSON)
    chunks = []
    for chunk in made.chunks:
        assert _in_use(bench) == before
        chunks.append(chunk)
    [document] = json.loads(b"".join(chunks))["documents"]
    assert [page["number"] for page in document["pages"]] == [1, 2, 3, 4, 5]


def test_reading_ends_in_a_refusal_when_the_job_is_deleted_meanwhile(bench: Bench) -> None:
    [job] = bench.run(bench.submit(pages=4))
    pages = read_pages(bench.context, bench.alice.tenant_id, job.id)
    assert next(pages).number == 1
    endings.delete(bench.context, bench.alice, job.id)
    with pytest.raises(NotFound):
        list(pages)


def test_pages_are_of_the_tenant_alone(bench: Bench) -> None:
    [job] = bench.run(bench.submit())
    with pytest.raises(NotFound):
        next(read_pages(bench.context, bench.charlie.tenant_id, job.id))


def test_export_waits_for_the_first_page_when_a_part_is_asked_for(bench: Bench) -> None:
    job = bench.submit()
    for partial in (False, True):
        with pytest.raises(Conflict) as refusal:
            export_job(bench.context, bench.alice.tenant_id, job.id, ExportFormat.TXT, partial=partial)
        assert refusal.value.code == "job_not_finished"
    endings.cancel(bench.context, bench.alice, job.id)
    with pytest.raises(Conflict) as refusal:
        export_job(bench.context, bench.alice.tenant_id, job.id, ExportFormat.TXT)
    assert refusal.value.code == "no_result"


def test_list_goes_on_when_the_job_it_stopped_at_was_deleted(bench: Bench) -> None:
    ids = [bench.submit().id for _ in range(3)][::-1]
    last = list_jobs(bench.context, bench.alice.tenant_id, limit=2)[-1]
    endings.cancel(bench.context, bench.alice, last.id)
    endings.delete(bench.context, bench.alice, last.id)
    older = list_jobs(bench.context, bench.alice.tenant_id, before=last.cursor)
    assert [job.id for job in older] == ids[2:]
