"""A tenant hears once a period that half, four fifths or all of a quota is used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from models import UsageNotice
from portal.db import insert_into
from portal.domain import Limit
from portal.usage.counters import Counters
from portal.usage.limits import Limits

PERCENTS = (50, 80, 100)


def note_thresholds(session: Session, tenant_id: str, limits: Limits, counters: Counters, *, pages: int) -> None:
    """Stores a notice for each threshold that the last `pages` pages passed; `counters` hold them already."""
    for limit, allowed, used, period in (
        (Limit.PAGES_PER_DAY, limits.pages_per_day, counters.day_pages, counters.day),
        (Limit.PAGES_PER_MONTH, limits.pages_per_month, counters.month_pages, counters.month),
    ):
        if not allowed:
            continue
        for percent in PERCENTS:
            if (used - pages) * 100 < percent * allowed <= used * 100:
                _store(session, tenant_id, limit, period, percent)


def _store(session: Session, tenant_id: str, limit: Limit, period: str, percent: int) -> None:
    session.execute(
        insert_into(session, UsageNotice)
        .values(tenant_id=tenant_id, limit_name=limit.value, period=period, percent=percent)
        .on_conflict_do_nothing()
    )


@dataclass(frozen=True)
class Notice:
    """A share of a limit that was passed within the period (a day or a month by its name)."""

    limit: Limit
    period: str
    percent: int


def open_notices(session: Session, tenant_id: str, counters: Counters) -> list[Notice]:
    """The highest notice of the present day and of the present month that nobody of the tenant has closed."""
    rows = session.execute(
        select(UsageNotice.limit_name, UsageNotice.period, func.max(UsageNotice.percent))
        .where(
            UsageNotice.tenant_id == tenant_id,
            UsageNotice.period.in_((counters.day, counters.month)),
            UsageNotice.seen_at.is_(None),
        )
        .group_by(UsageNotice.limit_name, UsageNotice.period)
        .order_by(UsageNotice.limit_name)
    )
    return [Notice(Limit(name), period, percent) for name, period, percent in rows]


def close_notice(session: Session, tenant_id: str, notice: Notice, *, at: datetime) -> None:
    """Notes that somebody saw it, and with it the smaller ones of its limit and period. A higher one comes anew."""
    session.execute(
        update(UsageNotice)
        .where(
            UsageNotice.tenant_id == tenant_id,
            UsageNotice.limit_name == notice.limit.value,
            UsageNotice.period == notice.period,
            UsageNotice.percent <= notice.percent,
            UsageNotice.seen_at.is_(None),
        )
        .values(seen_at=at)
    )
