"""What is reserved for nobody is given back, and nothing else is; the check of the books says so."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, select, update

from models import Job, LedgerEntry, Page, Reservation, SearchText, TenantUsage
from models.base import now
from portal.jobs.stray_reservations import REQUEST_DEADLINE, Swept, strays, sweep_reservations
from portal.usage import books
from portal.usage.admission import Ask, reserve
from tests.jobs.conftest import Bench
from tests.ledger import assert_books_agree


def test_only_what_is_nobodys_is_given_back(bench: Bench) -> None:
    database, tenant_id = bench.context.database, bench.alice.tenant_id
    live, gone, halved = (bench.submit(pages=2) for _ in range(3))
    with database.transaction() as session:
        for table in (SearchText, Page):
            session.execute(delete(table).where(table.job_id == gone.id))
        session.execute(delete(Job).where(Job.id == gone.id))
        session.execute(delete(Page).where(Page.job_id == halved.id, Page.position == 1))
    with database.transaction() as session:
        reserve(session, bench.alice, Ask(1, None, "extract", "fake", "request"))
    assert sweep_reservations(database) == Swept(2, 3)
    later = now() + REQUEST_DEADLINE + timedelta(minutes=1)
    assert sweep_reservations(database, at=later) == Swept(1, 1)
    assert sweep_reservations(database, at=later) == Swept()
    with database.reading() as session:
        assert_books_agree(session)
        swept = select(LedgerEntry.pages).where(LedgerEntry.reason == "swept", LedgerEntry.tenant_id == tenant_id)
        assert sorted(session.scalars(swept)) == [1, 1, 2]
        open_jobs = session.scalars(select(Reservation.job_id).where(Reservation.closed_at.is_(None))).all()
        assert set(open_jobs) == {live.id, halved.id}
    bench.run(live)


def test_wrong_books_are_named_and_set_right_by_the_entries(bench: Bench) -> None:
    database, tenant_id = bench.context.database, bench.alice.tenant_id
    [job] = bench.run(bench.submit(pages=2))
    bench.submit(pages=3)
    bench.submit(bench.charlie)
    with database.reading() as session:
        checked = {each.tenant_name: each for each in books.check(session)}
        assert (checked["acme"].entries, checked["acme"].reservations) == ((5, 2, 0), (5, 2, 0))
        assert [each.faults for each in checked.values()] == [[], [], []]
        assert strays(session) == {}
    with database.transaction() as session:
        own = TenantUsage.tenant_id == tenant_id
        session.execute(update(TenantUsage).where(own).values(pending_pages=9, day="2099-01-01", day_pages=0))
        session.execute(update(Reservation).where(Reservation.job_id == job.id).values(posted=1, returned=0))
    with database.reading() as session:
        [faults] = [each.faults for each in books.check(session) if each.faults]
        said = " / ".join(faults)
        for part in ("its entries say (2, 2, 0)", "pending_pages is 9", "2099-01-01, which is yet to come", "closed"):
            assert part in said
    with database.transaction() as session:
        books.repair(session, tenant_id)
    with database.reading() as session:
        assert [each.faults for each in books.check(session)] == [[], [], []]
        assert_books_agree(session)
