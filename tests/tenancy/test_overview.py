"""The whole portal at a glance, as its admin sees it."""

from __future__ import annotations

from datetime import timedelta

from models import Job, Reservation
from portal.engine import fakes
from portal.jobs.retry import retry
from portal.tenancy.overview import overview
from tests.jobs.conftest import Bench


def test_a_page_waits_since_it_was_asked_for_last(bench: Bench) -> None:
    database, before = bench.context.database, timedelta(days=30)
    with database.reading() as session:
        assert overview(session).oldest_seconds is None
    bench.engine.script = [fakes.fails(is_permanent=True)]
    [job] = bench.run(bench.submit())
    with database.transaction() as session:
        row = session.get_one(Job, job.id)
        row.created_at -= before
        session.query(Reservation).filter_by(job_id=job.id).one().created_at -= before
    retry(bench.context, bench.alice, job.id)
    with database.reading() as session:
        found = overview(session)
    assert (found.queued_pages, found.running_pages) == (1, 0)
    assert found.oldest_seconds is not None
    assert found.oldest_seconds < before.total_seconds()
    bench.submit()
    with database.transaction() as session:
        for held in session.query(Reservation).filter(Reservation.closed_at.is_(None)):
            held.created_at -= timedelta(hours=1)
        session.flush()
        oldest = overview(session).oldest_seconds
        assert oldest is not None
        assert 3600 <= oldest < 2 * 3600
