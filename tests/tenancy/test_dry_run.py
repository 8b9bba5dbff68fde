from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from models import RefusalCount, Reservation, Tenant
from models.base import new_id, now
from portal.db import Database
from portal.domain import Limit, Principal, Role, Scope
from portal.errors import InvalidRequest, LimitReached, NotFound
from portal.tenancy.dry_run import dry_run
from portal.tenancy.replay import Asked, Before, Ended, Refused, replay
from portal.usage.admission import Ask, reserve
from portal.usage.ledger import EndedPage, Outcome, end_page, return_rest
from portal.usage.limits import Limits
from portal.usage.refusals import counting_refusals
from tests.jobs.conftest import Bench
from tests.ledger import limit_tenant

FREE = Limits(None, None, None, None, None)
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def _asked(hours: float, pages: int, lasts_minutes: float = 1) -> Asked:
    at = NOON + timedelta(hours=hours)
    return Asked(at, pages, (Ended(at + timedelta(minutes=lasts_minutes), pages),))


def test_nothing_is_refused_when_nothing_is_limited() -> None:
    assert replay([_asked(hour, 1000) for hour in range(20)], FREE, "UTC") == ()


def test_whole_requests_are_refused_and_smaller_ones_let_in_when_a_day_is_full() -> None:
    week = [_asked(0, 6), _asked(1, 5), _asked(2, 4), _asked(13, 5)]
    refused = replay(week, replace(FREE, pages_per_day=10), "UTC")
    assert [(one.at, one.pages, one.limit) for one in refused] == [(week[1].at, 5, Limit.PAGES_PER_DAY)]


def test_days_begin_at_the_tenants_midnight() -> None:
    week = [_asked(2, 10), _asked(4, 10)]
    limits = replace(FREE, pages_per_day=10)
    assert len(replay(week, limits, "UTC")) == 1
    assert replay(week, limits, "Asia/Tokyo") == ()  # 21:00 UTC is 06:00 there; 15:00 UTC is its midnight


def test_what_the_month_had_before_counts() -> None:
    refused = replay([_asked(0, 5)], replace(FREE, pages_per_month=10), "UTC", before=Before({"2026-11": 6}))
    assert [one.limit for one in refused] == [Limit.PAGES_PER_MONTH]


def test_pages_in_flight_are_free_again_when_they_ended() -> None:
    week = [_asked(0, 8, 30), _asked(0.25, 5), _asked(0.6, 5), Asked(NOON + timedelta(hours=1), 9), _asked(9, 5)]
    refused = replay(week, replace(FREE, pages_in_flight=10), "UTC")
    assert [one.at for one in refused] == [week[1].at, week[4].at]


def test_returned_pages_are_there_again_from_when_they_were_returned() -> None:
    returned = Asked(NOON, 8, (Ended(NOON + timedelta(hours=2), 8, is_returned=True),))
    week = [returned, _asked(1, 5), _asked(3, 5)]
    for limits in (replace(FREE, pages_per_day=10), replace(FREE, pages_per_month=10)):
        assert [one.at for one in replay(week, limits, "UTC")] == [week[1].at]
    before = Before({"2026-11": 2}, in_flight=(returned,))
    assert [one.at for one in replay(week[1:], replace(FREE, pages_per_month=10), "UTC", before=before)] == [week[1].at]


def test_what_was_refused_takes_no_room_of_what_was_let_in() -> None:
    refused = Asked(NOON, 8, refused_by=Refused(Limit.PAGES_PER_DAY, 5), requests=3)
    assert replay([refused, _asked(1, 10)], replace(FREE, pages_per_day=18), "UTC") == ()
    [told] = replay([refused, _asked(1, 10)], replace(FREE, pages_per_day=17), "UTC")
    assert (told.was_refused, told.requests, told.pages) == (True, 3, 8)


@pytest.mark.parametrize(
    ("was", "tried", "binding"),
    [
        (Refused(Limit.PAGES_IN_FLIGHT, 5), {"pages_in_flight": 5}, Limit.PAGES_IN_FLIGHT),
        (Refused(Limit.PAGES_IN_FLIGHT, 5), {"pages_in_flight": 6}, None),
        (Refused(Limit.PAGES_IN_FLIGHT, 3), {"pages_in_flight": 5}, Limit.PAGES_IN_FLIGHT),  # raised, and never fits
        (Refused(Limit.PAGES_IN_FLIGHT, 50), {"pages_in_flight": 40}, Limit.PAGES_IN_FLIGHT),
        (Refused(Limit.PAGES_IN_FLIGHT, 5), {"requests_per_minute": 1}, None),
        (Refused(Limit.REQUESTS_PER_MINUTE, 10), {"requests_per_minute": 10}, Limit.REQUESTS_PER_MINUTE),
        (Refused(Limit.REQUESTS_PER_MINUTE, 10), {"requests_per_minute": 11}, None),
        (Refused(Limit.PAGES_PER_DAY, 5), {"pages_in_flight": 5}, Limit.PAGES_IN_FLIGHT),
    ],
)
def test_what_was_refused_is_held_against_the_limit_that_refused_it_unless_that_is_raised(
    was: Refused, tried: dict[str, int], binding: Limit | None
) -> None:
    twice_six_pages = Asked(NOON, 12, refused_by=was, requests=2)
    refused = replay([twice_six_pages], replace(FREE, **tried), "UTC")
    assert [one.limit for one in refused] == ([binding] if binding else [])


def test_requests_are_refused_when_there_are_more_within_a_minute() -> None:
    week = [Asked(NOON + timedelta(seconds=second), 1) for second in (0, 10, 20, 90)]
    refused = replay(week, replace(FREE, requests_per_minute=2), "UTC")
    assert [one.at for one in refused] == [week[2].at]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=30), st.integers(0, 100))
def test_no_day_is_ever_over_its_limit(requests: list[tuple[int, int]], allowed: int) -> None:
    week = [_asked(hour, pages) for hour, pages in requests]
    refused = replay(week, replace(FREE, pages_per_day=allowed), "UTC")
    days: dict[str, int] = {}
    for one in week:
        days[f"{one.at:%d%m}"] = days.get(f"{one.at:%d%m}", 0) + one.pages
    for one in refused:
        days[f"{one.at:%d%m}"] -= one.pages
    assert all(0 <= pages <= allowed for pages in days.values())


def test_tenants_are_told_apart_and_the_most_refused_comes_first(bench: Bench) -> None:
    bench.submit(pages=3)
    for _ in range(2):
        bench.submit(bench.charlie, pages=4)
    with bench.context.database.transaction() as session:
        found = dry_run(session, {Limit.PAGES_PER_DAY: 5})
        assert [(verdict.tenant_name, verdict.refused_pages) for verdict in found][:2] == [("other", 4), ("acme", 0)]
        assert found[0].newly_refused_pages == 4
        assert (found[0].requests, found[0].pages) == (2, 8)
        assert dry_run(session, {}, tenant_id=bench.charlie.tenant_id)[0].refused == ()
        with pytest.raises(NotFound):
            dry_run(session, {}, tenant_id="ten_0")
        with pytest.raises(InvalidRequest):
            dry_run(session, {Limit.PAGES_PER_DAY: -1})


def test_former_refusals_are_asked_again(bench: Bench) -> None:
    tenant_id = bench.alice.tenant_id
    with bench.context.database.transaction() as session:
        names = {"tenant_id": tenant_id, "code": "quota_exhausted", "limit_name": "pages_per_day"}
        session.add(RefusalCount(**names, day=f"{now():%Y-%m-%d}", requests=2, pages=80))
        session.flush()
        [tight] = dry_run(session, {Limit.PAGES_PER_DAY: 50}, tenant_id=tenant_id)
        [wide] = dry_run(session, {Limit.PAGES_PER_DAY: 100}, tenant_id=tenant_id)
    assert (tight.refused_pages, tight.newly_refused_pages, tight.refused_requests) == (80, 0, 2)
    assert wide.refused == ()


def test_refusals_of_a_moment_are_counted_with_what_the_limit_was_then(bench: Bench) -> None:
    database, who = bench.context.database, bench.alice
    limit_tenant(database, who.tenant_id, pages_in_flight=5)
    for _ in range(2):
        with contextlib.suppress(LimitReached), counting_refusals(database, who.tenant_id):
            _step(database, who, [], ("ask", 6, "read"))
    limit_tenant(database, who.tenant_id, pages_in_flight=9)
    with database.reading() as session:
        assert session.scalars(select(RefusalCount.allowed)).all() == [5]
        for tried, pages in ((1, 12), (5, 12), (6, 0), (None, 0)):
            [verdict] = dry_run(session, {Limit.PAGES_IN_FLIGHT: tried}, tenant_id=who.tenant_id)
            assert (verdict.refused_pages, verdict.newly_refused_pages) == (pages, 0)


def test_month_is_the_one_of_the_tenants_zone(bench: Bench) -> None:
    at = datetime(2026, 12, 7, 23, 30, tzinfo=UTC)  # a week before, it was December in Auckland, and November in UTC
    tenant_id = bench.alice.tenant_id
    with bench.context.database.transaction() as session:
        session.get_one(Tenant, tenant_id).time_zone = "Pacific/Auckland"
        for month, day, created_at in (
            ("2026-11", "2026-11-30", at - timedelta(days=8)),
            ("2026-12", "2026-12-07", at),
        ):
            held = reserve(session, bench.alice, Ask(5, None, "extract", "fake"))
            ended = created_at if month == "2026-11" else None
            row = session.get_one(Reservation, held.reservation_id)
            row.month, row.day, row.created_at, row.closed_at, row.posted = (
                month,
                day,
                created_at,
                ended,
                5 * bool(ended),
            )
        session.flush()
        assert dry_run(session, {Limit.PAGES_PER_MONTH: 5}, tenant_id=tenant_id, at=at)[0].refused == ()
        assert dry_run(session, {Limit.PAGES_PER_MONTH: 4}, tenant_id=tenant_id, at=at)[0].refused_pages == 5


_STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 5), st.just("")),
    st.tuples(st.just("return"), st.integers(0, 5), st.just("")),
    st.tuples(st.just("end"), st.integers(0, 5), st.sampled_from(["read", "blank"])),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_STEPS, max_size=14), st.integers(0, 3), st.sampled_from(["UTC", "Pacific/Kiritimati"]))
def test_limits_refuse_nothing_that_they_let_in(
    sqlite_bench: Bench, steps: list[tuple[str, int, Outcome]], spare: int, zone: str
) -> None:
    database = sqlite_bench.context.database
    who = _newcomer(database, zone)
    limit_tenant(
        database, who.tenant_id, pages_per_day=5 + spare, pages_per_month=8, pages_in_flight=4, requests_per_minute=600
    )
    held: list[str] = []
    for step, number, outcome in steps:
        with contextlib.suppress(LimitReached), counting_refusals(database, who.tenant_id):
            _step(database, who, held, (step, number, outcome))
    with database.reading() as session:
        [verdict] = dry_run(session, {}, tenant_id=who.tenant_id)
    assert [one for one in verdict.refused if not one.was_refused] == []


def _step(database: Database, who: Principal, held: list[str], step: tuple[str, int, Outcome]) -> None:
    what, number, outcome = step
    with database.transaction() as session:
        if what == "ask":
            held.append(reserve(session, who, Ask(number, None, "extract", "fake")).reservation_id)
        elif held and what == "return":
            pages = 1 + number % 2
            return_rest(session, who.tenant_id, held[number % len(held)], "cancelled", pages=pages)
        elif held:
            page = EndedPage(who.tenant_id, "job_1", new_id("pag"), held[number % len(held)])
            end_page(session, page, outcome)


def _newcomer(database: Database, zone: str) -> Principal:
    with database.transaction() as session:
        tenant = Tenant(name=new_id("ten"), time_zone=zone)
        session.add(tenant)
        session.flush()
        return Principal(tenant.id, tenant.name, None, "x@x.example", Role.OWNER, False, frozenset({Scope.OCR}))
