from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from models import AuditEntry, LimitChange, Tenant, TenantUsage
from portal.db import Database
from portal.domain import Limit
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.usage import limit_edits, plans
from portal.usage.counters import Counters
from portal.usage.limit_edits import LimitEdit
from portal.usage.limit_effects import effects
from portal.usage.limit_values import checked, parsed
from portal.usage.limits import DEFAULT_LIMITS, Limits, Terms, terms_of
from portal.usage.standing import standing_of

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def tenant_id(database: Database) -> str:
    plans.ensure_default(database)
    with database.transaction() as session:
        tenant = Tenant(name="Alpha")
        session.add(tenant)
        session.flush()
        used = {"day": "2026-11-30", "day_pages": 412, "month": "2026-11", "month_pages": 900, "pending_pages": 37}
        session.add(TenantUsage(tenant_id=tenant.id, **used))
        return tenant.id


def _limits(database: Database, tenant_id: str, at: datetime = AT) -> Limits:
    with database.reading() as session:
        return terms_of(session, tenant_id, at=at).limits


def _change(database: Database, tenant_id: str, edit: LimitEdit, **rest: str) -> limit_edits.Change:
    with database.transaction() as session:
        return limit_edits.change(session, "admin@x.example", tenant_id, edit, at=AT, **rest)


def test_effect_is_told_and_nothing_is_changed_when_previewed(database: Database, tenant_id: str) -> None:
    limits = {Limit.PAGES_PER_DAY: 300, Limit.PAGES_IN_FLIGHT: 10, Limit.WEIGHT: 2.0}
    with database.transaction() as session:
        seen = limit_edits.preview(session, tenant_id, LimitEdit(limits=limits, reason="too loud"), at=AT)
    told = {effect.subject: effect for effect in seen.effects}
    assert (told["pages_per_day"].old, told["pages_per_day"].new, told["pages_per_day"].used) == (5000, 300, 412)
    assert "has used 412 of the new 300 today: new work is refused until 00:00" in told["pages_per_day"].words
    assert "37 pages wait or are read, and stay accepted" in told["pages_in_flight"].words
    assert "2 times the share" in told["weight"].words
    assert _limits(database, tenant_id) == DEFAULT_LIMITS
    with database.reading() as session:
        assert session.scalars(select(LimitChange)).all() == []


@pytest.mark.parametrize(
    ("pending", "allowed", "words"),
    [
        (0, 0, "No page waits or is read now, and new work is refused until the limit is raised."),
        (1, 0, "1 page waits or is read, and stays accepted: new work is refused until the limit is raised."),
        (2, 2, "2 pages wait or are read, and stay accepted: new work is refused until fewer than 2 are."),
        (1, 2, "1 page more may wait now."),
        (1, None, "Nothing limits its pages in flight any more; 1 page waits or is read."),
    ],
)
def test_effect_on_pages_in_flight_is_told_as_people_say_it(pending: int, allowed: int | None, words: str) -> None:
    old = Terms(Limits(pages_in_flight=7), "standard", "UTC", "active", None)
    new = replace(old, limits=Limits(pages_in_flight=allowed))
    [told] = effects(old, new, Counters(pending_pages=pending), at=AT)
    assert told.words == words


def test_effect_of_no_pages_at_all_names_no_end(database: Database, tenant_id: str) -> None:
    none = LimitEdit(limits={Limit.PAGES_PER_DAY: 0, Limit.PAGES_PER_MONTH: 0, Limit.PAGES_IN_FLIGHT: 0})
    with database.transaction() as session:
        told = [effect.words for effect in limit_edits.preview(session, tenant_id, none, at=AT).effects]
    assert len(told) == 3
    assert all("new work is refused until the limit is raised." in words for words in told)


def test_effect_names_the_end_of_the_counted_day_when_the_zone_goes_back(database: Database, tenant_id: str) -> None:
    at = datetime(2026, 12, 1, 20, 0, tzinfo=UTC)  # noon in Los Angeles, the 2nd in Auckland
    with database.transaction() as session:
        used = session.get_one(TenantUsage, tenant_id)
        used.day, used.day_pages, used.month, used.month_pages = "2026-12-02", 5, "2026-12", 5
        session.get_one(Tenant, tenant_id).time_zone = "Pacific/Auckland"
    edit = LimitEdit(time_zone="America/Los_Angeles", limits={Limit.PAGES_PER_DAY: 4})
    with database.transaction() as session:
        made = limit_edits.change(session, "a", tenant_id, edit, at=at)
        [_, day, *_] = standing_of(session, tenant_id, at=at).standings
    told = {effect.subject: effect.words for effect in made.effects}
    for words in (told["time_zone"], told["pages_per_day"]):
        assert "00:00 on 3 December (America/Los_Angeles)" in words
    assert day.resets_at == datetime(2026, 12, 3, 8, 0, tzinfo=UTC)


def test_change_holds_is_audited_and_is_put_back_when_undone(database: Database, tenant_id: str) -> None:
    _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: 700}))
    made = _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: 300}, reason="too  loud"))
    assert _limits(database, tenant_id).pages_per_day == 300
    with database.transaction() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.at.desc()).limit(1)).one()
        assert (entry.action, entry.before, entry.after) == (
            "limits.changed",
            {"pages_per_day": 700},
            {"pages_per_day": 300},
        )
        assert entry.details["reason"] == "too loud"
        limit_edits.undo(session, "admin@x.example", tenant_id, str(made.id), at=AT + timedelta(minutes=9))
    assert _limits(database, tenant_id).pages_per_day == 700
    with database.transaction() as session, pytest.raises(Conflict) as refused:
        limit_edits.undo(session, "admin@x.example", tenant_id, str(made.id), at=AT + timedelta(minutes=9))
    assert refused.value.code == "change_undone"


def test_undo_is_refused_when_late_or_something_changed_since(database: Database, tenant_id: str) -> None:
    made = _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: 300}))
    with database.transaction() as session, pytest.raises(Conflict) as late:
        limit_edits.undo(session, "a", tenant_id, str(made.id), at=AT + timedelta(minutes=10))
    _change(database, tenant_id, LimitEdit(time_zone="Asia/Tokyo"))
    with database.transaction() as session, pytest.raises(Conflict) as changed:
        limit_edits.undo(session, "a", tenant_id, str(made.id), at=AT)
    assert (late.value.code, changed.value.code) == ("undo_too_late", "limits_changed")
    assert _limits(database, tenant_id).pages_per_day == 300


def test_change_is_refused_when_the_state_that_was_looked_at_is_gone(database: Database, tenant_id: str) -> None:
    edit = LimitEdit(limits={Limit.PAGES_PER_DAY: 300})
    with database.transaction() as session:
        seen = limit_edits.preview(session, tenant_id, edit, at=AT).seen
    _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: None}))
    with pytest.raises(Conflict) as refused:
        _change(database, tenant_id, edit, seen=seen)
    assert refused.value.code == "limits_changed"
    assert _limits(database, tenant_id).pages_per_day is None


def test_plans_limit_holds_again_when_the_raise_has_ended(database: Database, tenant_id: str) -> None:
    _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: 9000}, until=AT + timedelta(hours=1)))
    assert _limits(database, tenant_id).pages_per_day == 9000
    assert _limits(database, tenant_id, AT + timedelta(hours=1)).pages_per_day == 5000


def test_own_limits_stay_and_the_rest_is_the_plans_when_the_plan_is_changed(database: Database, tenant_id: str) -> None:
    with database.transaction() as session:
        plans.create_plan(session, "admin", "Small", {Limit.PAGES_PER_DAY: 10, Limit.PAGES_PER_MONTH: 20})
    _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: 50}))
    made = _change(database, tenant_id, LimitEdit(plan="Small"))
    assert {effect.subject for effect in made.effects} == {"plan", "pages_per_month"}
    limits = _limits(database, tenant_id)
    assert (limits.pages_per_day, limits.pages_per_month) == (50, 20)
    _change(database, tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: "plan"}))
    assert _limits(database, tenant_id).pages_per_day == 10


def test_nothing_is_recorded_when_nothing_differs(database: Database, tenant_id: str) -> None:
    edit = LimitEdit(limits={Limit.PAGES_PER_DAY: 300})
    assert _change(database, tenant_id, edit).id is not None
    assert _change(database, tenant_id, edit).id is None
    with database.reading() as session:
        assert len(session.scalars(select(LimitChange)).all()) == 1


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (LimitEdit(limits={Limit.PAGES_PER_DAY: -1}), "limit_invalid"),
        (LimitEdit(limits={Limit.PAGES_PER_DAY: 1.5}), "limit_invalid"),
        (LimitEdit(limits={Limit.PAGES_PER_DAY: 2**31}), "limit_invalid"),
        (LimitEdit(limits={Limit.WEIGHT: 0}), "limit_invalid"),
        (LimitEdit(limits={Limit.WEIGHT: 0.009}), "limit_invalid"),
        (LimitEdit(limits={Limit.WEIGHT: 100.1}), "limit_invalid"),
        (LimitEdit(limits={Limit.WEIGHT: None}), "limit_invalid"),
        (LimitEdit(limits={Limit.WEIGHT: float("nan")}), "limit_invalid"),
        (LimitEdit(limits={Limit.RETENTION_DAYS: 0}), "limit_invalid"),
        (LimitEdit(time_zone="Mars/Base"), "time_zone_unknown"),
        (LimitEdit(plan="Nothing"), "plan_unknown"),
        (LimitEdit(limits={Limit.WEIGHT: 2}, until=AT), "limit_until_invalid"),
        (LimitEdit(time_zone="UTC", until=AT + timedelta(days=1)), "limit_until_invalid"),
        (LimitEdit(limits={Limit.WEIGHT: 2}, reason="x" * 301), "reason_too_long"),
    ],
)
def test_nothing_is_changed_when_the_edit_is_not_possible(
    database: Database, tenant_id: str, edit: LimitEdit, code: str
) -> None:
    with pytest.raises((InvalidRequest, NotFound)) as refused:
        _change(database, tenant_id, edit)
    assert refused.value.code == code
    assert _limits(database, tenant_id) == DEFAULT_LIMITS


@given(st.text(max_size=12) | st.integers().map(str) | st.floats().map(str))
def test_written_limit_is_allowed_or_refused(text: str) -> None:
    for limit in Limit:
        with contextlib.suppress(InvalidRequest):
            value = parsed(limit, text)
            assert value == "plan" or checked(limit, value) == value
