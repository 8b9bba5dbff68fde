"""The limits of a tenant: its plan's, but for those that it has instead. Read where they bind, never cached."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from models import Plan, Tenant, TenantLimit
from portal.domain import Limit
from portal.domain import TenantState as TenantState
from portal.errors import Forbidden, NotFound


@dataclass(frozen=True)
class Limits:
    """Each limit by its name in `Limit`; None is no limit. `weight` is the tenant's share when engines are full."""

    pages_per_day: int | None = 5_000
    pages_per_month: int | None = 50_000
    requests_per_minute: int | None = 600
    pages_in_flight: int | None = 500
    uncharged_pages_per_day: int | None = 200
    max_file_bytes: int | None = None
    max_document_pages: int | None = None
    retention_days: int | None = 90
    weight: float = 1.0

    def value(self, limit: Limit) -> float | None:
        """The limit's value in its unit; None is no limit."""
        found: float | None = getattr(self, limit.value)
        return found


DEFAULT_LIMITS = Limits()
DEFAULT_PLAN = "standard"


@dataclass(frozen=True)
class Terms:
    """What a tenant was promised at one moment: limits, plan, the zone its days begin in, and its state."""

    limits: Limits
    plan: str
    time_zone: str
    state: TenantState
    state_reason: str | None


def terms_of(session: Session, tenant_id: str, *, at: datetime) -> Terms:
    """The tenant's terms at the moment `at` (aware). Raises NotFound."""
    row = session.execute(
        select(Tenant, Plan)
        .outerjoin(Plan, or_(Plan.id == Tenant.plan_id, and_(Tenant.plan_id.is_(None), Plan.is_default)))
        .where(Tenant.id == tenant_id)
    ).one_or_none()
    if row is None:
        raise NotFound("There is no such tenant.")
    tenant, plan = row
    limits = limits_of_plan(plan) if plan else DEFAULT_LIMITS
    return Terms(
        limits=_with_own(session, limits, tenant_id, at),
        plan=plan.name if plan else DEFAULT_PLAN,
        time_zone=tenant.time_zone,
        state=TenantState(tenant.state),
        state_reason=tenant.state_reason,
    )


def limits_of_plan(plan: Plan) -> Limits:
    """The plan's row as limits."""
    return Limits(**{field.name: getattr(plan, field.name) for field in fields(Limits)})


def refuse_suspended(terms: Terms) -> None:
    """Raises Forbidden (tenant_suspended) with the admin's reason when the tenant may submit nothing."""
    if terms.state is TenantState.ACTIVE:
        return
    reason = f" The admin's reason: {terms.state_reason}" if terms.state_reason else ""
    raise Forbidden(
        f"This tenant may not submit new work at present.{reason}",
        code="tenant_suspended",
        remedy="Ask the portal's admin. What is there can still be read, exported and deleted.",
    )


def _with_own(session: Session, limits: Limits, tenant_id: str, at: datetime) -> Limits:
    rows = session.scalars(
        select(TenantLimit).where(
            TenantLimit.tenant_id == tenant_id, or_(TenantLimit.until.is_(None), TenantLimit.until > at)
        )
    )
    own: dict[str, Any] = {row.name: _typed(row.name, row.value) for row in rows}
    return replace(limits, **own)


def _typed(name: str, value: float | None) -> float | None:
    return value if value is None or name == Limit.WEIGHT else int(value)
