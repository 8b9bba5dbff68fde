"""Reports, receipts and forecasts of a tenant's use, on both databases, by three people."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from models import LedgerEntry, RefusalCount, Reservation, TenantUsage
from models.base import new_id
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.domain import Limit, Principal
from portal.engine.fakes import FakeEngine
from portal.errors import Conflict, Forbidden, InvalidRequest
from portal.usage.admission import Ask, reserve
from portal.usage.forecast import runs_out_at
from portal.usage.more import ask_for_more, requests_for_more
from portal.usage.receipt_list import ReceiptsAsked, ReceiptSort, all_receipts, list_receipts
from portal.usage.reports import PageSums, key_use, last_days, usage_report
from portal.usage.standing import standing_of
from portal.usage.zones import change_time_zone, time_zones
from tests.jobs.conftest import Bench, make_bench, sandbox
from tests.ledger import limit_tenant

__all__ = ["sandbox"]  # the fixture

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)


@pytest.fixture
def bench(database: Database, sandbox: Sandbox, tmp_path: Path) -> Bench:
    return make_bench(database, sandbox, tmp_path, [FakeEngine()])


def _enter(
    database: Database,
    who: Principal,
    outcomes: dict[tuple[str, str], int],
    *,
    at: datetime = NOON,
    task: str = "extract",
) -> str:
    """A reservation whose pages ended so: (kind, reason) → pages."""
    pages = sum(outcomes.values())
    posted = sum(number for (kind, _), number in outcomes.items() if kind == "posted")
    own = {
        "tenant_id": who.tenant_id,
        "member_id": who.member_id,
        "api_key_id": who.api_key_id,
        "job_id": new_id("job"),
        "task": task,
        "engine": "fake",
        "day": f"{at:%Y-%m-%d}",
        "month": f"{at:%Y-%m}",
        "created_at": at,
    }
    with database.transaction() as session:
        held = Reservation(**own, reason="submitted", pages=pages, posted=posted, returned=pages - posted, closed_at=at)
        session.add(held)
        session.flush()
        own["reservation_id"] = held.id
        session.add(LedgerEntry(**own, kind="reserved", reason="submitted", pages=pages))
        for (kind, reason), number in outcomes.items():
            for _ in range(number):
                session.add(LedgerEntry(**own, page_id=new_id("pag"), kind=kind, reason=reason, pages=1))
    return held.id


def test_each_page_is_in_one_series_and_every_share_sums_up_when_a_tenant_is_reported(bench: Bench) -> None:
    database, alice, bob = bench.context.database, bench.alice, bench.bob
    _enter(database, alice, {("posted", "read"): 5, ("returned", "blank"): 2, ("returned", "identical"): 1})
    _enter(database, bob, {("posted", "read"): 1, ("returned", "failed"): 3, ("posted", "failed_over_cap"): 1})
    _enter(database, bob, {("returned", "cancelled"): 4}, at=NOON - timedelta(days=1), task="fields")
    _enter(database, bench.charlie, {("posted", "read"): 50})
    with database.transaction() as session:
        own = {"day": "2026-03-11", "code": "quota_exhausted", "limit_name": "pages_per_day"}
        session.add(RefusalCount(tenant_id=alice.tenant_id, requests=3, pages=36, **own))
        session.add(RefusalCount(tenant_id=bench.charlie.tenant_id, requests=9, pages=9, **own))
    with database.reading() as session:
        report = usage_report(session, alice.tenant_id, first_day="2026-03-10", last_day="2026-03-12")
    assert [day.day for day in report.days] == ["2026-03-10", "2026-03-11", "2026-03-12"]
    assert report.days[0].pages == PageSums()
    assert report.days[1].pages == PageSums(returned=4)
    assert (report.days[1].refused_requests, report.days[1].refused_pages) == (3, 36)
    assert report.days[2].pages == PageSums(charged=7, blank=2, failed=3, free=1)
    assert report.total.read == 13
    assert [(share.name, share.pages.charged) for share in report.tasks] == [("extract", 7), ("fields", 0)]
    assert [(share.name, share.pages.charged) for share in report.members] == [(alice.email, 5), (bob.email, 2)]
    assert [share.id for share in report.keys] == [None]
    assert [(row.code, row.requests) for row in report.refused] == [("quota_exhausted", 3)]


def test_range_is_refused_when_it_is_none(bench: Bench) -> None:
    with bench.context.database.reading() as session:
        for first, last in (("2026-03-12", "2026-03-11"), ("2024-01-01", "2026-01-01"), ("soon", "2026-01-01")):
            with pytest.raises(InvalidRequest):
                usage_report(session, bench.alice.tenant_id, first_day=first, last_day=last)
    assert last_days("2026-03-01", 2) == ("2026-02-28", "2026-03-01")


@pytest.mark.parametrize("sort", list(ReceiptSort))
@pytest.mark.parametrize("is_ascending", [True, False])
def test_receipts_are_read_on_without_gap_or_repeat_in_every_order(
    bench: Bench, sort: ReceiptSort, *, is_ascending: bool
) -> None:
    database, alice = bench.context.database, bench.alice
    for number in range(7):  # equal times and equal counts: only the id tells them apart
        at = NOON + timedelta(minutes=number // 3)
        _enter(database, alice, {("posted", "read"): 1 + number % 2, ("returned", "blank"): number // 4 + 1}, at=at)
    _enter(database, bench.charlie, {("posted", "read"): 1})
    asked = ReceiptsAsked("2026-03-12", "2026-03-12", sort, is_ascending=is_ascending, limit=3)
    seen = []
    with database.reading() as session:
        while batch := list_receipts(session, alice.tenant_id, asked):
            seen += batch
            asked = replace(asked, after=batch[-1].cursor)
        with pytest.raises(InvalidRequest):
            list_receipts(session, alice.tenant_id, replace(asked, after="1; drop table"))
    assert len({receipt.id for receipt in seen}) == len(seen) == 7
    values = {
        ReceiptSort.TIME: lambda listed: listed.created_at,
        ReceiptSort.RESERVED: lambda listed: listed.receipt.reserved,
        ReceiptSort.CHARGED: lambda listed: listed.receipt.charged,
        ReceiptSort.RETURNED: lambda listed: listed.receipt.returned,
    }
    found = [values[sort](listed) for listed in seen]
    assert found == sorted(found, reverse=not is_ascending)
    assert all(listed.receipt.pending == 0 for listed in seen)
    everything = list(all_receipts(database, alice.tenant_id, replace(asked, sort=sort, after=None)))
    assert [listed.id for listed in everything] == [listed.id for listed in seen]


def test_forecast_tells_when_pages_run_out_and_nothing_when_they_last(bench: Bench) -> None:
    database, alice = bench.context.database, bench.alice
    limit_tenant(database, alice.tenant_id, pages_per_day=500)
    _enter(database, alice, {("posted", "read"): 400}, at=NOON - timedelta(hours=4))
    with database.transaction() as session:
        session.add(
            TenantUsage(tenant_id=alice.tenant_id, day="2026-03-12", day_pages=400, month="2026-03", month_pages=400)
        )

    def forecast(at: datetime) -> tuple[Limit, datetime | None]:
        with database.reading() as session:
            standing = standing_of(session, alice.tenant_id, at=at)
            assert standing.nearest is not None
            return standing.nearest.limit, runs_out_at(session, alice.tenant_id, standing, standing.nearest)

    assert forecast(NOON) == (Limit.PAGES_PER_DAY, NOON + timedelta(hours=1))
    assert forecast(NOON - timedelta(hours=3, minutes=55))[1] is None  # too early to say
    assert forecast(datetime(2026, 3, 12, 23, tzinfo=UTC))[1] is None  # they last until midnight


def test_more_is_asked_for_once_and_only_more(bench: Bench) -> None:
    database, bob = bench.context.database, bench.bob
    with database.transaction() as session:
        made = ask_for_more(session, bob, "pages_per_day", 9000, "  the archive\n of 2019 ")
        assert (made.state, made.wanted, made.reason) == ("open", 9000, "the archive of 2019")
        for limit, wanted, reason in (
            ("pages_per_day", 9001, "again"),
            ("retention_days", 9000, "x"),
            ("pages_per_month", 50_000, "no more than now"),
            ("pages_per_month", 10**12, "x"),
            ("pages_per_month", 60_000, " "),
            ("pages_per_month", 60_000, "\0"),
            ("pages_per_month", 60_000, "x" * 1001),
        ):
            with pytest.raises((InvalidRequest, Conflict)):
                ask_for_more(session, bob, limit, wanted, reason)
    with database.reading() as session:
        assert [one.id for one in requests_for_more(session, bench.alice.tenant_id)] == [made.id]
        assert requests_for_more(session, bench.charlie.tenant_id) == []


def test_zone_is_changed_by_an_owner_and_recorded_and_no_day_begins_twice(bench: Bench) -> None:
    from sqlalchemy import select

    from models import AuditEntry

    database, alice = bench.context.database, bench.alice
    at = datetime(2026, 3, 12, 20, tzinfo=UTC)
    with pytest.raises(Forbidden), database.transaction() as session:
        change_time_zone(session, bench.bob, "Asia/Tokyo")
    with pytest.raises(InvalidRequest), database.transaction() as session:
        change_time_zone(session, alice, "../../etc/passwd")
    for zone, used in (("Asia/Tokyo", 5), ("UTC", 10)):
        with database.transaction() as session:
            change_time_zone(session, alice, zone)
            reserve(session, alice, Ask(5, new_id("job"), "extract", "fake"), at=at)
        with database.reading() as session:
            standing = standing_of(session, alice.tenant_id, at=at)
            assert standing.counters.day_pages == used
            resets = {one.limit: one.resets_at for one in standing.standings}
        # In Tokyo it is the 13th already, so that day's pages count until it is over in UTC, too.
        ends_at = datetime(2026, 3, 13, 15, tzinfo=UTC) if zone == "Asia/Tokyo" else datetime(2026, 3, 14, tzinfo=UTC)
        assert resets[Limit.PAGES_PER_DAY] == ends_at
    with database.reading() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.action == "tenant.time_zone_changed")).all()
    changes = [((entry.before or {})["time_zone"], (entry.after or {})["time_zone"]) for entry in entries]
    assert set(changes) == {("UTC", "Asia/Tokyo"), ("Asia/Tokyo", "UTC")}
    assert {"UTC", "Europe/Berlin", "Asia/Tokyo"} <= set(time_zones())


def test_keys_are_counted_apart_by_day_and_month(bench: Bench) -> None:
    database, alice = bench.context.database, bench.alice
    keyed = replace(alice, api_key_id="key_1")
    _enter(database, keyed, {("posted", "read"): 3})
    _enter(database, keyed, {("posted", "read"): 2, ("returned", "blank"): 1}, at=NOON - timedelta(days=3))
    _enter(database, keyed, {("posted", "read"): 9}, at=NOON - timedelta(days=30))
    with database.reading() as session:
        assert key_use(session, alice.tenant_id, day="2026-03-12", month="2026-03") == {"key_1": (3, 5)}
        assert key_use(session, bench.charlie.tenant_id, day="2026-03-12", month="2026-03") == {}
