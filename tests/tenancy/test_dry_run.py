from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import RefusalCount
from models.base import now
from portal.domain import Limit
from portal.errors import InvalidRequest, NotFound
from portal.tenancy.dry_run import Asked, dry_run, replay
from portal.usage.limits import Limits
from tests.jobs.conftest import Bench

FREE = Limits(None, None, None, None, None)
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def _asked(hours: float, pages: int, lasts_minutes: float = 1) -> Asked:
    at = NOON + timedelta(hours=hours)
    return Asked(at, pages, at + timedelta(minutes=lasts_minutes))


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
    refused = replay([_asked(0, 5)], replace(FREE, pages_per_month=10), "UTC", month_pages={"2026-11": 6})
    assert [one.limit for one in refused] == [Limit.PAGES_PER_MONTH]


def test_pages_in_flight_are_free_again_when_they_ended() -> None:
    week = [_asked(0, 8, 30), _asked(0.25, 5), _asked(0.6, 5), Asked(NOON + timedelta(hours=1), 9, None), _asked(9, 5)]
    refused = replay(week, replace(FREE, pages_in_flight=10), "UTC")
    assert [one.at for one in refused] == [week[1].at, week[4].at]


def test_requests_are_refused_when_there_are_more_within_a_minute() -> None:
    week = [Asked(NOON + timedelta(seconds=second), 1, NOON) for second in (0, 10, 20, 61)]
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
