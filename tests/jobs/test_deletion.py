"""Deleted for good: nothing of the text is left on disk or in a table, a record stays; retention does the same."""

from __future__ import annotations

import secrets
from datetime import timedelta

import pytest
from sqlalchemy import select, text

from models import DeletionRecord, Job, Page
from models.base import now
from portal.documents.intake import Upload
from portal.domain import JobState
from portal.engine import fakes
from portal.errors import InvalidRequest, NotFound
from portal.jobs.deletion import list_deletions
from portal.jobs.endings import delete
from portal.jobs.queries import JobView, get_job
from portal.jobs.retention import delete_expired
from portal.jobs.retry import retry
from portal.jobs.submission import Order, submit
from tests.jobs.conftest import Bench, left_of, page_bytes
from tests.ledger import assert_books_agree, charged, limit_tenant


def _age(bench: Bench, job: JobView, **age: int) -> None:
    with bench.context.database.transaction() as session:
        row = session.get_one(Job, job.id)
        row.finished_at = now() - timedelta(**age)


def test_nothing_of_the_text_is_left_when_a_job_is_deleted(bench: Bench) -> None:
    words = f"secret{secrets.token_hex(8)}"
    bench.engine.script = [fakes.answers(words * 300)]  # longer than a page of the database
    upload = bench.upload(f"{words}.png")
    [job] = bench.run(submit(bench.context, bench.alice, [upload], Order()))
    kept = bench.submit(bench.alice)
    upload.path.unlink()
    assert left_of(bench, words) != []
    delete(bench.context, bench.bob, job.id)
    assert left_of(bench, words) == []
    [record] = list_deletions(bench.context, bench.alice.tenant_id)
    assert (record.target, record.reason, record.actor) == (job.id, "asked", "bob@acme.example")
    assert (record.gone["pages"], record.gone["readings"], record.gone["images"], record.gone["documents"]) == (1,) * 4
    assert record.gone["bytes"] > 0
    assert list_deletions(bench.context, bench.charlie.tenant_id) == []
    assert [path.name for path in (bench.folder / "data").rglob("doc_*")] == [kept.documents[0].id]
    with bench.context.database.reading() as session:
        assert charged(session) == 1
        assert_books_agree(session)
    with pytest.raises(Exception, match="never changed"), bench.context.database.transaction() as session:
        session.execute(text("DELETE FROM deletion_records"))


def test_deletions_are_read_on_from_the_last_one_seen(sqlite_bench: Bench) -> None:
    bench = sqlite_bench
    jobs = bench.run(*(bench.submit() for _ in range(3)))
    for job in jobs:
        delete(bench.context, bench.alice, job.id)
    newest, rest = list_deletions(bench.context, bench.alice.tenant_id, limit=1), jobs[:-1]
    assert newest[0].target == jobs[-1].id
    older = list_deletions(bench.context, bench.alice.tenant_id, before=newest[0].id)
    assert [each.target for each in older] == [job.id for job in reversed(rest)]
    with pytest.raises(NotFound):
        list_deletions(bench.context, bench.charlie.tenant_id, before=newest[0].id)
    with pytest.raises(InvalidRequest):
        list_deletions(bench.context, bench.alice.tenant_id, limit=0)


def test_retention_deletes_what_ended_before_and_nothing_else(bench: Bench) -> None:
    limit_tenant(bench.context.database, bench.alice.tenant_id, retention_days=7)
    limit_tenant(bench.context.database, bench.charlie.tenant_id, retention_days=None)
    bench.engine.script = [fakes.fails(is_permanent=True)]
    [retried] = bench.run(bench.submit())
    bench.engine.script = [fakes.answers("text")]
    old, young, others = bench.run(bench.submit(), bench.submit(), bench.submit(bench.charlie))
    waiting = bench.submit()
    for job, days in ((old, 8), (retried, 8), (young, 6), (others, 4000)):
        _age(bench, job, days=days)
    retry(bench.context, bench.alice, retried.id)
    assert young.expires_at is not None
    assert (waiting.expires_at, others.expires_at) == (None, None)
    assert delete_expired(bench.context) == 1
    with pytest.raises(NotFound):
        get_job(bench.context, bench.alice.tenant_id, old.id)
    for job in (retried, young, waiting):
        get_job(bench.context, bench.alice.tenant_id, job.id)
    assert get_job(bench.context, bench.charlie.tenant_id, others.id).state is JobState.SUCCEEDED
    with bench.context.database.reading() as session:
        [record] = session.scalars(select(DeletionRecord)).all()
        assert (record.target, record.reason) == (old.id, "retention")
    assert not list((bench.folder / "data").rglob(old.documents[0].id))


def test_what_expired_is_read_again(sqlite_bench: Bench) -> None:
    bench = sqlite_bench
    limit_tenant(bench.context.database, bench.alice.tenant_id, retention_days=1)
    path = bench.folder / "same"
    path.write_bytes(page_bytes(1))
    [first] = bench.run(submit(bench.context, bench.alice, [Upload("a.png", path)], Order()))
    _age(bench, first, days=2)
    assert submit(bench.context, bench.alice, [Upload("a.png", path)], Order()).state is JobState.SUCCEEDED
    with bench.context.database.transaction() as session:
        session.execute(text("UPDATE jobs SET finished_at = '2020-01-01 00:00:00.000000'"))
    assert delete_expired(bench.context) == 2
    assert submit(bench.context, bench.alice, [Upload("a.png", path)], Order()).state is JobState.QUEUED
    with bench.context.database.reading() as session:
        assert len(session.scalars(select(Page)).all()) == 1
