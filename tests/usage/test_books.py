"""The books are mended while work goes on: nothing of it is lost."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import delete, select, update

from models import Tenant, TenantUsage
from portal.usage import books as all_books
from portal.usage.admission import Ask, reserve
from portal.usage.ledger import return_rest
from tests.ledger import assert_books_agree
from tests.locks import meanwhile
from tests.usage.conftest import Books

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def _ask(pages: int) -> Ask:
    return Ask(pages, "job_1", "extract", "fake")


def _repair(books: Books) -> None:
    with books.database.transaction() as session:
        all_books.repair(session, books.alice.tenant_id)


def _assert_right(books: Books, *, pending: int) -> None:
    with books.database.reading() as session:
        assert [each.faults for each in all_books.check(session)] == [[], []]
        assert_books_agree(session)
        own = TenantUsage.tenant_id == books.alice.tenant_id
        assert session.scalar(select(TenantUsage.pending_pages).where(own)) == pending


def test_pages_asked_for_meanwhile_count_when_the_books_are_mended(books: Books) -> None:
    with books.database.transaction() as session:
        reserve(session, books.alice, _ask(3))
    with books.database.transaction() as session:
        reserve(session, books.alice, _ask(7))
        repaired = meanwhile(books.database, lambda: _repair(books))
    repaired.result()
    _assert_right(books, pending=10)


def test_pages_given_back_meanwhile_stay_given_back_when_the_books_are_mended(books: Books) -> None:
    with books.database.transaction() as session:
        held = reserve(session, books.alice, _ask(3))
    with books.database.transaction() as session:
        return_rest(session, books.alice.tenant_id, held.reservation_id, "cancelled", pages=2)
        repaired = meanwhile(books.database, lambda: _repair(books))
    repaired.result()
    _assert_right(books, pending=1)


def test_counters_are_made_again_when_they_are_gone(books: Books) -> None:
    with books.database.transaction() as session:
        reserve(session, books.alice, _ask(3))
        session.execute(delete(TenantUsage))
    with books.database.reading() as session:
        assert [each.faults for each in all_books.check(session) if each.faults] != []
    _repair(books)
    _assert_right(books, pending=3)


def test_wrong_counters_of_another_stay_as_they_are(books: Books) -> None:
    with books.database.transaction() as session:
        for who in (books.alice, books.charlie):
            reserve(session, who, _ask(2))
        session.execute(update(TenantUsage).values(pending_pages=9))
    _repair(books)
    with books.database.reading() as session:
        rows = session.execute(select(TenantUsage.tenant_id, TenantUsage.pending_pages)).all()
    assert {row.tenant_id: row.pending_pages for row in rows} == {books.alice.tenant_id: 2, books.charlie.tenant_id: 9}


def _counted(books: Books) -> tuple[str, int, str, int]:
    with books.database.reading() as session:
        own = session.scalars(select(TenantUsage).where(TenantUsage.tenant_id == books.alice.tenant_id)).one()
        return own.day, own.day_pages, own.month, own.month_pages


def _move(books: Books, time_zone: str) -> None:
    with books.database.transaction() as session:
        session.get_one(Tenant, books.alice.tenant_id).time_zone = time_zone


def test_pages_of_a_day_that_is_ahead_stay_counted_when_the_books_are_mended_after_a_change_of_zone(
    books: Books,
) -> None:
    _move(books, "Pacific/Kiritimati")
    with books.database.transaction() as session:
        reserve(session, books.alice, _ask(5), at=NOON)
    _move(books, "America/Los_Angeles")
    with books.database.transaction() as session:
        session.execute(update(TenantUsage).values(day_pages=1, month_pages=9))
        all_books.repair(session, books.alice.tenant_id, at=NOON)
    assert _counted(books) == ("2026-12-01", 5, "2026-12", 5)


def test_counters_of_a_day_that_no_zone_explains_are_those_of_today_when_the_books_are_mended(books: Books) -> None:
    with books.database.transaction() as session:
        reserve(session, books.alice, _ask(5), at=NOON)
        session.execute(update(TenantUsage).values(day="2031-05-01", month="2031-05", uncharged_day="2031-05-01"))
        [own, _] = all_books.check(session, at=NOON)
        assert "counters are of 2031-05-01, which is yet to come" in own.faults
        all_books.repair(session, books.alice.tenant_id, at=NOON)
        assert [each.faults for each in all_books.check(session, at=NOON)] == [[], []]
    assert _counted(books) == ("2026-11-30", 5, "2026-11", 5)
