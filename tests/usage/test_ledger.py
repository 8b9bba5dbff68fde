"""What becomes of reserved pages: each end is entered once, and entries, reservations and counters agree."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError, IntegrityError

from models import LedgerEntry, RefusalCount, Reservation
from models.base import now
from portal.errors import LimitReached, NotFound
from portal.usage.admission import Ask, Held, reserve
from portal.usage.ledger import Outcome, end_page, return_page, return_rest
from portal.usage.receipts import receipts
from portal.usage.refusals import counting_refusals
from portal.usage.request_ends import end_request
from portal.usage.standing import standing_of
from tests.ledger import assert_books_agree, limit_tenant, page_ends
from tests.usage.conftest import Books


def _held(books: Books, pages: int, *, reason: str = "submitted") -> Held:
    with books.database.transaction() as session:
        return reserve(session, books.alice, Ask(pages, "job_1", "extract", "fake", reason))  # type: ignore[arg-type]


def _end(books: Books, held: Held, page_id: str, outcome: Outcome, *, is_portals_fault: bool = False) -> bool:
    page = books.page(held.reservation_id, page_id)
    with books.database.transaction() as session:
        return end_page(session, page, outcome, is_portals_fault=is_portals_fault)


def _ends(books: Books) -> list[tuple[str, int]]:
    with books.database.reading() as session:
        assert_books_agree(session)
        return page_ends(session, "job_1")


@pytest.mark.parametrize("outcome", ["blank", "failed", "truncated"])
def test_uncharged_pages_are_charged_when_the_days_cap_is_passed(books: Books, outcome: Outcome) -> None:
    limit_tenant(books.database, books.alice.tenant_id, uncharged_pages_per_day=1)
    held = _held(books, 4)
    assert _end(books, held, "pag_1", "read")
    assert not _end(books, held, "pag_2", outcome)
    assert _end(books, held, "pag_3", outcome)
    assert not _end(books, held, "pag_4", "failed", is_portals_fault=True)
    assert sorted(_ends(books)) == sorted([("read", 1), (outcome, 0), (f"{outcome}_over_cap", 1), ("failed", 0)])
    with books.database.reading() as session:
        standing = standing_of(session, books.alice.tenant_id)
        assert (standing.counters.uncharged_pages, standing.counters.day_posted) == (1, 2)
        tomorrow = standing_of(session, books.alice.tenant_id, at=now() + timedelta(days=1))
        assert tomorrow.counters.uncharged_pages == 0
        assert session.get_one(Reservation, held.reservation_id).closed_at is not None


def test_uncharged_pages_cost_nothing_when_nothing_caps_them(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, uncharged_pages_per_day=None)
    held = _held(books, 3)
    assert not any(_end(books, held, f"pag_{number}", "blank") for number in range(3))


def test_a_page_ends_once_within_a_reservation(books: Books) -> None:
    held = _held(books, 2)
    _end(books, held, "pag_1", "read")
    with pytest.raises(IntegrityError):
        _end(books, held, "pag_1", "failed")
    assert _ends(books) == [("read", 1)]


def test_a_page_charged_over_the_cap_is_not_charged_again_when_its_retry_is_read(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, uncharged_pages_per_day=0)
    assert _end(books, _held(books, 1), "pag_1", "failed")
    assert not _end(books, _held(books, 1, reason="retried"), "pag_1", "read")
    assert sorted(_ends(books)) == [("charged_before", 0), ("failed_over_cap", 1)]


def test_a_page_that_ends_late_is_kept_and_not_charged(books: Books) -> None:
    held = _held(books, 1)
    with books.database.transaction() as session:
        assert return_rest(session, books.alice.tenant_id, held.reservation_id, "swept") == 1
        assert return_rest(session, books.alice.tenant_id, held.reservation_id, "swept") == 0
    assert not _end(books, held, "pag_1", "read")
    assert _ends(books) == [("late", 0)]


def test_a_sample_costs_nothing_however_it_ends(books: Books) -> None:
    held = _held(books, 0, reason="sample")
    assert not _end(books, held, "pag_1", "read")
    assert not _end(books, held, "pag_2", "failed")
    assert _ends(books) == [("sample", 0)] * 2


def test_a_request_is_posted_once_and_what_is_identical_is_returned(books: Books) -> None:
    door = _held(books, 1, reason="request")
    for _ in range(2):
        with books.database.transaction() as session:
            end_request(session, books.alice.tenant_id, door.reservation_id, is_delivered=True)
    held = _held(books, 2)
    with books.database.transaction() as session:
        return_page(session, books.page(held.reservation_id, "pag_7"), "identical")
    with books.database.reading() as session:
        assert_books_agree(session)
        receipt = receipts(session, books.alice.tenant_id, ["job_1", "job_unknown"])
        assert (receipt["job_1"].reserved, receipt["job_1"].charged, receipt["job_1"].returned) == (3, 1, 1)
        assert receipt["job_1"].pending == 1
        assert receipt["job_unknown"].lines == ()
        assert receipts(session, books.charlie.tenant_id, ["job_1"])["job_1"].lines == ()


@pytest.mark.parametrize("statement", ["UPDATE ledger_entries SET pages = 0", "DELETE FROM ledger_entries"])
def test_entries_are_never_changed(books: Books, statement: str) -> None:
    _held(books, 1)
    with pytest.raises(DatabaseError, match="never changed"), books.database.transaction() as session:
        session.execute(text(statement))
    with books.database.reading() as session:
        assert session.scalars(select(LedgerEntry.pages)).all() == [1]


def test_another_tenants_reservation_is_not_touched(books: Books) -> None:
    held = _held(books, 1)
    with pytest.raises(Exception, match="No row was found"), books.database.transaction() as session:
        return_rest(session, books.charlie.tenant_id, held.reservation_id, "cancelled")


def test_refusals_are_counted_apart_from_what_they_refuse(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, pages_per_day=2)
    for _ in range(2):
        with pytest.raises(LimitReached), counting_refusals(books.database, books.alice.tenant_id):
            _held(books, 3)
    with books.database.reading() as session:
        row = session.scalars(select(RefusalCount)).one()
        assert (row.code, row.limit_name, row.requests, row.pages) == ("quota_exhausted", "pages_per_day", 2, 6)
        assert session.scalars(select(Reservation)).all() == []
    with pytest.raises(LimitReached), counting_refusals(books.database, "ten_gone"):
        _held(books, 3)
    with pytest.raises(NotFound), counting_refusals(books.database, books.alice.tenant_id):
        raise NotFound("something else")
