"""When a tenant's pages run out at the pace of this day or month: the sentence on top of the Usage page."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import Reservation
from portal.domain import Limit, Standing
from portal.usage.standing import TenantStanding

_TOO_EARLY = timedelta(minutes=10)


def runs_out_at(session: Session, tenant_id: str, standing: TenantStanding, limit: Standing) -> datetime | None:
    """When the day's or month's pages will be used up at the pace since the first of them; aware.

    None when they last until the reset, are used up, when it is too early to say (ten minutes), or for other limits.
    """
    began = _period_began(standing, limit.limit)
    if began is None or not limit.remaining or not limit.used or limit.resets_at is None:
        return None
    first = session.scalar(
        select(Reservation.created_at)
        .where(Reservation.tenant_id == tenant_id, Reservation.created_at >= began, Reservation.pages > 0)
        .order_by(Reservation.created_at)
        .limit(1)
    )
    at = standing.period.at
    if first is None or at - first < _TOO_EARLY:
        return None
    ends_at = at + (at - first) * (limit.remaining / limit.used)
    return ends_at if ends_at < limit.resets_at else None


def _period_began(standing: TenantStanding, limit: Limit) -> datetime | None:
    days = {Limit.PAGES_PER_DAY: standing.period.day, Limit.PAGES_PER_MONTH: f"{standing.period.month}-01"}
    day = days.get(limit)
    return None if day is None else datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(standing.terms.time_zone))
