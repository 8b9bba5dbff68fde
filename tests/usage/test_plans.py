from __future__ import annotations

import threading

import pytest
from sqlalchemy import select

from models import AuditEntry, Plan, Tenant
from models.base import now
from portal.db import Database
from portal.domain import Limit
from portal.errors import Conflict, InvalidRequest
from portal.usage import plans
from portal.usage.limits import DEFAULT_LIMITS, terms_of
from portal.usage.plans import PlanView


def _plans(database: Database) -> dict[str, PlanView]:
    with database.reading() as session:
        return {plan.name: plan for plan in plans.list_plans(session)}


def test_one_default_plan_is_there_when_many_start_at_once(database: Database) -> None:
    starts = [threading.Thread(target=plans.ensure_default, args=(database,)) for _ in range(6)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    [standard] = _plans(database).values()
    assert (standard.name, standard.is_default, standard.limits) == ("standard", True, DEFAULT_LIMITS)


def test_tenants_without_a_plan_follow_when_another_is_made_the_default(database: Database) -> None:
    plans.ensure_default(database)
    with database.transaction() as session:
        tenant = Tenant(name="Alpha")
        session.add(tenant)
        plans.create_plan(session, "admin", "Team", {Limit.PAGES_PER_DAY: 7})
        assert plans.make_default(session, "admin", "Team").is_default
    with database.reading() as session:
        assert terms_of(session, tenant.id, at=now()).limits.pages_per_day == 7
        assert [row.name for row in session.scalars(select(Plan).where(Plan.is_default))] == ["Team"]
    found = _plans(database)
    assert (found["Team"].tenants, found["standard"].tenants) == (1, 0)


def test_limits_change_at_once_and_are_audited_when_a_plan_is_edited(database: Database) -> None:
    plans.ensure_default(database)
    with database.transaction() as session:
        plans.edit_plan(session, "admin", "standard", {Limit.PAGES_PER_DAY: None, Limit.WEIGHT: 1})
    assert _plans(database)["standard"].limits.pages_per_day is None
    with database.reading() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "plan.changed")).one()
    assert (entry.before, entry.after) == ({"pages_per_day": 5000}, {"pages_per_day": None})


def test_plan_is_refused_when_its_name_or_a_limit_cannot_be(database: Database) -> None:
    plans.ensure_default(database)
    for name, limits, refusal in (
        ("standard", {}, Conflict),
        ("Default", {}, InvalidRequest),
        ("", {}, InvalidRequest),
        ("x" * 61, {}, InvalidRequest),
        ("Team", {Limit.PAGES_PER_DAY: -1}, InvalidRequest),
    ):
        with database.transaction() as session, pytest.raises(refusal):
            plans.create_plan(session, "admin", name, limits)
    assert list(_plans(database)) == ["standard"]
