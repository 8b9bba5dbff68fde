"""Admission: every limit binds, alone and with others; what is refused counts nothing; periods roll over."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from models import LedgerEntry, Plan, RefusalCount, Reservation, Tenant, TenantLimit, TenantUsage
from portal.db import Database
from portal.domain import Limit
from portal.errors import Forbidden, InvalidRequest, LimitReached, NotFound, TooManyPages, Unavailable
from portal.usage.admission import Ask, Held, reserve
from portal.usage.bindings import refusal
from portal.usage.counters import Counters
from portal.usage.ledger import return_rest
from portal.usage.limits import DEFAULT_LIMITS, Limits, weights_of
from portal.usage.periods import period_at
from portal.usage.refusals import counting_refusals
from portal.usage.standing import standing_of
from tests.ledger import assert_books_agree, limit_tenant
from tests.usage.conftest import Books

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FREE = {
    "pages_per_day": None,
    "pages_per_month": None,
    "requests_per_minute": None,
    "pages_in_flight": None,
    "uncharged_pages_per_day": None,
}


def _ask(pages: int) -> Ask:
    return Ask(pages, "job_1", "extract", "fake")


def _reserve(books: Books, pages: int = 1, at: datetime = NOON) -> Held:
    with books.database.transaction() as session:
        return reserve(session, books.alice, _ask(pages), at=at)


def _stored(database: Database) -> tuple[object, ...]:
    with database.reading() as session:
        rows = [session.execute(select(*table.__table__.c)).all() for table in (TenantUsage, Reservation, LedgerEntry)]
    return tuple(tuple(map(tuple, found)) for found in rows)


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("pages_per_day", "quota_exhausted"),
        ("pages_per_month", "quota_exhausted"),
        ("pages_in_flight", "too_many_in_flight"),
    ],
)
def test_nothing_is_counted_when_one_limit_on_pages_alone_binds(books: Books, limit: str, code: str) -> None:
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {limit: 5})
    _reserve(books, 3)
    before = _stored(books.database)
    with pytest.raises(LimitReached) as refused:
        _reserve(books, 3)
    assert (refused.value.code, refused.value.limit, refused.value.allowed, refused.value.used) == (code, limit, 5, 3)
    assert refused.value.asked_pages == 3
    assert _stored(books.database) == before
    assert _reserve(books, 2).counters.pending_pages == 5
    with books.database.reading() as session:
        assert_books_agree(session)


def test_the_limit_that_binds_longest_is_named_when_all_bind(books: Books) -> None:
    all_bind = {"pages_per_day": 1, "pages_per_month": 1, "pages_in_flight": 1, "requests_per_minute": 1}
    limit_tenant(books.database, books.alice.tenant_id, **all_bind)
    _reserve(books)
    for lifted, binding in (
        (None, Limit.PAGES_PER_MONTH),
        ("pages_per_month", Limit.PAGES_PER_DAY),
        ("pages_per_day", Limit.PAGES_IN_FLIGHT),
        ("pages_in_flight", Limit.REQUESTS_PER_MINUTE),
    ):
        if lifted:
            limit_tenant(books.database, books.alice.tenant_id, **{lifted: None})
        before = _stored(books.database)
        with pytest.raises(LimitReached) as refused:
            _reserve(books)
        assert refused.value.limit == binding
        assert _stored(books.database) == before


def test_requests_slide_through_the_minute(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {"requests_per_minute": 4})
    for _ in range(4):
        _reserve(books, 0)
    with pytest.raises(LimitReached) as refused:
        _reserve(books, 0, at=NOON + timedelta(seconds=30))
    assert refused.value.code == "rate_limited"
    waited = NOON + timedelta(seconds=30 + (refused.value.retry_after_seconds or 0))
    assert _reserve(books, 0, at=waited).counters.previous_requests == 4
    with pytest.raises(LimitReached):
        _reserve(books, 0, at=waited)
    assert _reserve(books, 0, at=NOON + timedelta(minutes=5)).counters.previous_requests == 0


def test_counts_start_anew_when_a_day_or_a_month_begins_in_the_tenants_zone(books: Books) -> None:
    with books.database.transaction() as session:
        session.get_one(Tenant, books.alice.tenant_id).time_zone = "America/New_York"
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {"pages_per_day": 2, "pages_per_month": 3})
    late = datetime(2026, 11, 30, 4, 59, tzinfo=UTC)  # 23:59 on the 29th in New York
    assert _reserve(books, 2, at=late).counters.day == "2026-11-29"
    with pytest.raises(LimitReached) as refused:
        _reserve(books, 1, at=late)
    assert refused.value.retry_after_seconds == 60
    held = _reserve(books, 1, at=late + timedelta(minutes=1))
    assert (held.counters.day, held.counters.day_pages, held.counters.month_pages) == ("2026-11-30", 1, 3)
    held = _reserve(books, 2, at=late + timedelta(days=1, minutes=1))
    assert (held.counters.month, held.counters.month_pages, held.counters.pending_pages) == ("2026-12", 2, 5)
    with books.database.reading() as session:
        assert_books_agree(session)


def test_a_page_of_yesterday_is_given_back_to_yesterday(books: Books) -> None:
    yesterday = _reserve(books, 3)
    today = _reserve(books, 2, at=NOON + timedelta(days=1))
    assert today.counters.day_pages == 2
    with books.database.transaction() as session:
        return_rest(session, books.alice.tenant_id, yesterday.reservation_id, "cancelled")
    with books.database.reading() as session:
        counters = standing_of(session, books.alice.tenant_id, at=NOON + timedelta(days=1)).counters
        assert (counters.day_pages, counters.month_pages, counters.pending_pages) == (2, 2, 2)
        assert_books_agree(session)


def test_no_period_turns_back_when_the_zone_or_a_clock_does(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {"pages_per_day": 3})
    with books.database.transaction() as session:
        session.get_one(Tenant, books.alice.tenant_id).time_zone = "Pacific/Kiritimati"
    assert _reserve(books, 3).counters.day == "2026-12-01"
    with books.database.transaction() as session:
        session.get_one(Tenant, books.alice.tenant_id).time_zone = "America/Los_Angeles"
    for at in (NOON, NOON - timedelta(hours=3)):
        with pytest.raises(LimitReached):
            _reserve(books, 1, at=at)
    assert _reserve(books, 1, at=NOON + timedelta(days=2)).counters.day_pages == 1


def test_a_raise_ends_by_itself(books: Books) -> None:
    with books.database.transaction() as session:
        own = {"tenant_id": books.alice.tenant_id, "name": "pages_per_day", "set_by": "test"}
        session.add(TenantLimit(**own, value=6_000, until=NOON + timedelta(hours=1)))
    limit_tenant(books.database, books.alice.tenant_id, pages_in_flight=None)
    _reserve(books, 5_500)
    with pytest.raises(LimitReached) as refused:
        _reserve(books, 1, at=NOON + timedelta(hours=1))
    assert refused.value.allowed == DEFAULT_LIMITS.pages_per_day


def test_own_plan_goes_before_the_default_and_own_limits_before_both(books: Books) -> None:
    with books.database.transaction() as session:
        session.add(Plan(name="small", is_default=True, pages_per_day=7))
        big = Plan(name="big", pages_per_day=70, weight=3)
        session.add(big)
        session.flush()
        for tenant_id, plan, pages in ((books.charlie.tenant_id, "small", 7), (books.alice.tenant_id, "big", 70)):
            if plan == "big":
                session.get_one(Tenant, tenant_id).plan_id = big.id
                session.flush()
            terms = standing_of(session, tenant_id).terms
            assert (terms.plan, terms.limits.pages_per_day) == (plan, pages)
    limit_tenant(books.database, books.alice.tenant_id, pages_per_day=9, weight=0.5)
    with books.database.reading() as session:
        limits = standing_of(session, books.alice.tenant_id).terms.limits
        assert (limits.pages_per_day, limits.weight, limits.pages_in_flight) == (9, 0.5, None)


def test_a_weight_that_no_turns_can_be_shared_out_by_counts_as_the_least(books: Books) -> None:
    tenant_id = books.alice.tenant_id
    limit_tenant(books.database, tenant_id, weight=1e-300)
    with books.database.reading() as session:
        assert standing_of(session, tenant_id).terms.limits.weight == 0.01
        assert weights_of(session, [tenant_id], at=NOON) == {tenant_id: 0.01}


def test_a_quota_of_nought_refuses_and_asking_for_no_page_passes_it(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, pages_per_day=0, pages_in_flight=0)
    with pytest.raises(LimitReached, match="needs 1 page, and your tenant may have 0 read in a day") as refused:
        _reserve(books)
    assert refused.value.remedy.startswith("Ask for more")
    _reserve(books, 0)
    with books.database.reading() as session:
        assert session.scalars(select(Reservation.closed_at)).one() is not None


def _assert_never_fits(books: Books, limit: str) -> LimitReached:
    """Of six pages where five are the most; as it is told, also by another process."""
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {"pages_per_month": 9, limit: 5})
    _reserve(books, 4)
    before = _stored(books.database)
    with pytest.raises(LimitReached, match="needs 6 pages, and your tenant may have 5 ") as refused:
        _reserve(books, 6)
    told: LimitReached = pickle.loads(pickle.dumps(refused.value))
    assert (told.limit, told.allowed, told.used) == (limit, 5, 4)
    assert told.remedy.startswith("Split the document, choose fewer pages, or ask for more")
    assert _stored(books.database) == before
    return told


def test_nobody_is_told_to_wait_when_the_pages_would_never_fit_in_flight(books: Books) -> None:
    told = _assert_never_fits(books, "pages_in_flight")
    assert isinstance(told, TooManyPages)
    assert (told.code, told.retry_after_seconds) == ("too_many_pages", None)


@pytest.mark.parametrize("limit", ["pages_per_day", "pages_per_month"])
def test_time_of_the_reset_is_told_and_the_remedy_says_no_wait_when_a_whole_period_is_too_short(
    books: Books, limit: str
) -> None:
    told = _assert_never_fits(books, limit)
    assert (told.code, told.retry_after_seconds) == ("quota_exhausted", 12 * 3600)  # noon of a month's last day
    assert "wait" not in told.remedy.lower()


def test_the_smallest_limit_is_named_when_the_pages_pass_several_for_good(books: Books) -> None:
    tight = {"pages_per_month": 700, "pages_per_day": 500, "pages_in_flight": 100}
    limit_tenant(books.database, books.alice.tenant_id, **tight)
    for pages in (1_600, 600, 101):
        with pytest.raises(TooManyPages, match=f"needs {pages:,} pages, and your tenant may have 100 in flight"):
            _reserve(books, pages)
    limit_tenant(books.database, books.alice.tenant_id, pages_in_flight=650)
    with pytest.raises(LimitReached, match="needs 800 pages, and your tenant may have 500 read in a day"):
        _reserve(books, 800)
    assert _stored(books.database) == ((), (), ())


def test_refusals_for_good_are_counted_too(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {"pages_in_flight": 5})
    with pytest.raises(TooManyPages), counting_refusals(books.database, books.alice.tenant_id):
        _reserve(books, 6)
    with books.database.reading() as session:
        counted = session.scalars(select(RefusalCount)).one()
    assert (counted.code, counted.limit_name, counted.pages) == ("too_many_pages", "pages_in_flight", 6)


@pytest.mark.parametrize("state", ["no_new_jobs", "suspended"])
def test_a_suspended_tenant_reserves_nothing(books: Books, state: str) -> None:
    with books.database.transaction() as session:
        tenant = session.get_one(Tenant, books.alice.tenant_id)
        tenant.state, tenant.state_reason = state, "unpaid bill"
    with pytest.raises(Forbidden, match="unpaid bill"):
        _reserve(books)
    assert _stored(books.database) == ((), (), ())


def test_a_tenant_that_is_gone_is_not_found(books: Books) -> None:
    with books.database.reading() as session, pytest.raises(NotFound):
        standing_of(session, "ten_gone")


def test_nothing_is_counted_when_the_database_fails_in_mid_admission(books: Books) -> None:
    with books.database.connecting(writes=True) as connection:
        connection.execute(text("ALTER TABLE ledger_entries RENAME TO ledger_away"))
        connection.commit()
    try:
        with pytest.raises(Unavailable):
            _reserve(books)
    finally:
        with books.database.connecting(writes=True) as connection:
            connection.execute(text("ALTER TABLE ledger_away RENAME TO ledger_entries"))
            connection.commit()
    assert _stored(books.database) == ((), (), ())


def test_exactly_what_is_left_is_admitted_when_many_ask_at_once(books: Books) -> None:
    limit_tenant(books.database, books.alice.tenant_id, **FREE | {"pages_per_day": 10})
    outcomes: list[str] = []

    def ask() -> None:
        try:
            _reserve(books)
            outcomes.append("admitted")
        except LimitReached as refused:
            outcomes.append(refused.code)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["admitted"] * 10 + ["quota_exhausted"] * 6
    with books.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Reservation)) == 10
        assert_books_agree(session)


_limit = st.none() | st.integers(0, 12)
_limits = st.builds(
    Limits, pages_per_day=_limit, pages_per_month=_limit, pages_in_flight=_limit, requests_per_minute=_limit
)
_moments = st.integers(-5, 200_000).map(
    lambda seconds: datetime(2026, 12, 30, 22, 0, tzinfo=UTC) + timedelta(seconds=seconds)
)
_asks = st.lists(st.tuples(_moments, st.integers(0, 6)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limits=_limits, asks=_asks, zone=st.sampled_from(["UTC", "America/Havana", "Asia/Kathmandu"]))
def test_sql_and_python_agree_whatever_is_asked_when(
    books: Books, limits: Limits, asks: list[tuple[datetime, int]], zone: str
) -> None:
    """The UPDATE lets in exactly what `refusal` does not refuse, and counts as `Counters` does, also out of order."""
    own = {name: getattr(limits, name) for name in FREE}
    limit_tenant(books.database, books.alice.tenant_id, **own)
    with books.database.transaction() as session:
        session.get_one(Tenant, books.alice.tenant_id).time_zone = zone
        for table in (TenantUsage, Reservation):
            session.execute(text(f"DELETE FROM {table.__tablename__}"))
    model = Counters()
    for at, pages in asks:
        period = period_at(at, zone)
        rolled = model.rolled(period)
        refused = refusal(rolled, limits, period, pages=pages)
        if refused is not None:
            with pytest.raises(LimitReached) as found:
                _reserve(books, pages, at=at)
            assert (found.value.code, found.value.binding) == (refused.code, refused.binding)
            continue
        model = replace(
            rolled,
            day_pages=rolled.day_pages + pages,
            month_pages=rolled.month_pages + pages,
            pending_pages=rolled.pending_pages + pages,
            window_requests=rolled.window_requests + 1,
        )
        counters = _reserve(books, pages, at=at).counters
        assert replace(counters, uncharged_day=model.uncharged_day) == model  # that one is stored by the ledger only


def test_a_wait_of_retry_after_lets_the_next_request_in() -> None:
    """Property of the sliding minute, on counters alone: waiting as told is enough, and never over two minutes."""

    @given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60), st.integers(0, 59))
    @example(1, 0, 1, 0)  # two whole minutes
    def check(allowed: int, before: int, now: int, second: int) -> None:
        at = NOON + timedelta(seconds=second)
        window = int(at.timestamp() // 60)
        counters = Counters(window=window, window_requests=now, previous_requests=before, day="0", month="0")
        limits = Limits(requests_per_minute=allowed)
        period = period_at(at, "UTC")
        refused = refusal(counters.rolled(period), limits, period, pages=0)
        if refused is None:
            return
        assert 1 <= (refused.retry_after_seconds or 0) <= 120
        later = period_at(at + timedelta(seconds=refused.retry_after_seconds or 0), "UTC")
        assert refusal(counters.rolled(later), limits, later, pages=0) is None

    check()


def test_an_unknown_zone_is_refused_in_words() -> None:
    from portal.usage.periods import checked_time_zone

    for name in ("Mars/Olympus", "", "../../etc/passwd", "UTC\0", "x" * 300):
        with pytest.raises(InvalidRequest) as refused:
            checked_time_zone(name)
        assert refused.value.code == "time_zone_unknown"
    assert checked_time_zone("Europe/Berlin") == "Europe/Berlin"
