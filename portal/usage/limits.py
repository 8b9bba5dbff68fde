"""The limits of a tenant: its plan's, but for those that it has instead. Read where they bind, never cached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select
from sqlalchemy.orm import Session

from models import Plan, Tenant, TenantLimit
from models.base import UTCDateTime
from portal.domain import Limit
from portal.domain import TenantState as TenantState
from portal.errors import Forbidden, NotFound
from portal.usage.limit_values import MAX_WEIGHT, MIN_WEIGHT
from portal.wording import as_sentence


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
_IS_ITS_PLAN = or_(Plan.id == Tenant.plan_id, and_(Tenant.plan_id.is_(None), Plan.is_default))
DEFAULT_PLAN = "standard"


_NAMES = tuple(field.name for field in fields(Limits))
_IS_IN_FORCE = or_(TenantLimit.until.is_(None), TenantLimit.until > bindparam("at", type_=UTCDateTime()))
# One row for each limit of the tenant's own, one where it has none. Asked at each admission: built once.
_TERMS = (
    select(
        *(Tenant.__table__.c[name] for name in ("time_zone", "state", "state_reason")),
        Plan.__table__.c.name.label("plan"),
        *(Plan.__table__.c[name] for name in _NAMES),
        TenantLimit.__table__.c.name.label("own_name"),
        TenantLimit.__table__.c.value.label("own_value"),
    )
    .select_from(Tenant.__table__)
    .outerjoin(Plan.__table__, _IS_ITS_PLAN)
    .outerjoin(TenantLimit.__table__, and_(TenantLimit.tenant_id == Tenant.id, _IS_IN_FORCE))
    .where(Tenant.id == bindparam("tenant"))
    .where(or_(TenantLimit.tenant_id.is_(None), TenantLimit.tenant_id == bindparam("tenant")))
)


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
    rows = session.execute(_TERMS, {"tenant": tenant_id, "at": at}).all()
    if not rows:
        raise NotFound("There is no such tenant.")
    first = rows[0]._mapping
    limits = DEFAULT_LIMITS if first["plan"] is None else Limits(**{name: _typed(name, first[name]) for name in _NAMES})
    own: dict[str, Any] = {row.own_name: _typed(row.own_name, row.own_value) for row in rows if row.own_name}
    return Terms(
        limits=replace(limits, **own),
        plan=first["plan"] or DEFAULT_PLAN,
        time_zone=first["time_zone"],
        state=TenantState(first["state"]),
        state_reason=first["state_reason"],
    )


def weights_of(session: Session, tenant_ids: Iterable[str], *, at: datetime) -> dict[str, float]:
    """Tenant → its weight at the moment `at`: of all those that wait, for the gate."""
    is_own = and_(
        TenantLimit.tenant_id == Tenant.id,
        TenantLimit.name == Limit.WEIGHT.value,
        or_(TenantLimit.until.is_(None), TenantLimit.until > at),
    )
    rows = session.execute(
        select(Tenant.id, func.coalesce(TenantLimit.value, Plan.weight, DEFAULT_LIMITS.weight))
        .outerjoin(Plan, _IS_ITS_PLAN)
        .outerjoin(TenantLimit, is_own)
        .where(Tenant.id.in_(tenant_ids))
    )
    return {tenant_id: _weight(weight) for tenant_id, weight in rows}


def limits_of_plan(plan: Plan) -> Limits:
    """The plan's row as limits."""
    return Limits(**{name: _typed(name, getattr(plan, name)) for name in _NAMES})


def expires_at(finished_at: datetime | None, retention_days: int | None) -> datetime | None:
    """When a job that ended then is deleted; None while it has not ended, or when it is kept without limit."""
    return None if finished_at is None or retention_days is None else finished_at + timedelta(days=retention_days)


def refuse_suspended(terms: Terms) -> None:
    """Raises Forbidden (tenant_suspended) with the admin's reason when the tenant may submit nothing."""
    if terms.state is TenantState.ACTIVE:
        return
    reason = f" The admin's reason: {as_sentence(terms.state_reason)}" if terms.state_reason else ""
    raise Forbidden(
        f"This tenant may not submit new work at present.{reason}",
        code="tenant_suspended",
        remedy="Ask the portal's admin. What is there can still be read, exported and deleted.",
    )


def _typed(name: str, value: float | None) -> Any:
    if value is None:
        return None
    return _weight(value) if name == Limit.WEIGHT else int(value)


def _weight(stored: float) -> float:
    return min(max(float(stored), MIN_WEIGHT), MAX_WEIGHT)  # any above nought was once allowed
