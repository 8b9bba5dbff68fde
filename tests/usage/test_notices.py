"""Shares of a quota are told once a period, and anew where a raise or a cut makes them say more."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import update

from models import UsageNotice
from portal.domain import Limit
from portal.usage.admission import Ask, reserve
from portal.usage.limit_edits import LimitEdit, change, undo
from portal.usage.notices import PERCENTS, Notice, close_notice, open_notices
from portal.usage.standing import standing_of
from tests.ledger import limit_tenant
from tests.usage.conftest import Books

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)
DAY = Limit.PAGES_PER_DAY


def _limit(books: Books, pages_per_day: int) -> None:
    limit_tenant(books.database, books.alice.tenant_id, pages_per_day=pages_per_day, pages_per_month=None)


def _ask(books: Books, pages: int) -> None:
    with books.database.transaction() as session:
        reserve(session, books.alice, Ask(pages, "job_1", "extract", "fake"), at=NOON)


def _open(books: Books) -> list[Notice]:
    with books.database.reading() as session:
        return open_notices(session, books.alice.tenant_id, standing_of(session, books.alice.tenant_id, at=NOON))


def _percents(books: Books) -> list[int]:
    return [notice.percent for notice in _open(books)]


def _close(books: Books) -> None:
    found = _open(books)
    with books.database.transaction() as session:
        for notice in found:
            close_notice(session, books.charlie.tenant_id, notice, at=NOON)
            close_notice(session, books.alice.tenant_id, notice, at=NOON)


def test_notice_is_open_once_a_period_until_somebody_closes_it(books: Books) -> None:
    _limit(books, 10)
    _ask(books, 4)
    assert _percents(books) == []
    _ask(books, 4)
    assert _percents(books) == [80]
    _close(books)
    assert _percents(books) == []
    _ask(books, 2)
    assert _percents(books) == [100]
    assert PERCENTS == (50, 80, 100)


def test_shares_of_a_raised_limit_are_told_when_they_are_of_more_pages_than_was_told(books: Books) -> None:
    _limit(books, 10)
    _ask(books, 10)
    _close(books)
    _limit(books, 20)
    assert _percents(books) == []  # half of it is what was all before
    for pages, percent in ((6, 80), (4, 100)):
        _ask(books, pages)
        assert _percents(books) == [percent]
        _close(books)
    assert _percents(books) == []
    _limit(books, 10)
    assert _percents(books) == []
    _limit(books, 30)
    _ask(books, 4)
    assert _percents(books) == [80]


def test_notices_that_a_former_release_closed_stay_closed_and_are_closed_anew(books: Books) -> None:
    _limit(books, 10)
    _ask(books, 8)
    own = {"tenant_id": books.alice.tenant_id, "limit_name": DAY.value, "period": f"{NOON:%Y-%m-%d}"}
    with books.database.transaction() as session:
        session.add(UsageNotice(**own, percent=80, seen_at=NOON))
        session.add(UsageNotice(**own, percent=50))  # told, not closed
    assert _percents(books) == []
    with books.database.transaction() as session:
        session.execute(update(UsageNotice).values(seen_at=None))
    assert _percents(books) == [80]
    _close(books)
    assert _percents(books) == []
    _limit(books, 9)
    assert _percents(books) == []
    _limit(books, 8)
    assert _percents(books) == [100]


def test_notice_comes_when_an_admin_lowers_the_limit_and_goes_when_it_is_undone(books: Books) -> None:
    _ask(books, 4)
    edit = LimitEdit(limits={DAY: 2, Limit.PAGES_PER_MONTH: 5})
    with books.database.transaction() as session:
        made = change(session, "admin", books.alice.tenant_id, edit, at=NOON)
    assert [(notice.limit, notice.percent) for notice in _open(books)] == [(DAY, 100), (Limit.PAGES_PER_MONTH, 80)]
    with books.database.transaction() as session:
        undo(session, "admin", books.alice.tenant_id, str(made.id), at=NOON)
    assert _open(books) == []
