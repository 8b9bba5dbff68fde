"""A tenant hears once a period that half, four fifths or all of a quota is used.

What is told follows from how the tenant stands, however it came there: by pages, or by an admin who lowered the limit.
Stored is only what somebody closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import UsageNotice
from portal.db import insert_into
from portal.domain import Limit, Standing
from portal.usage.counters import Counters
from portal.usage.standing import TenantStanding

PERCENTS = (50, 80, 100)


@dataclass(frozen=True)
class Notice:
    """A share of a limit that is reached within the period (a day or a month by its name)."""

    limit: Limit
    period: str
    percent: int


def open_notices(session: Session, tenant_id: str, standing: TenantStanding) -> list[Notice]:
    """The highest notice of the present day and month, unless somebody of the tenant closed it or a higher one."""
    periods = _periods(standing.counters)
    closed = _closed(session, tenant_id, periods)
    reached = [
        Notice(one.limit, periods[one.limit], percent)
        for one in standing.standings
        if one.limit in periods and (percent := _percent(one)) is not None
    ]
    told = [notice for notice in reached if notice.percent > closed.get((notice.limit.value, notice.period), 0)]
    return sorted(told, key=lambda notice: notice.limit.value)


def close_notice(session: Session, tenant_id: str, notice: Notice, *, at: datetime) -> None:
    """Notes that somebody saw it, and with it the smaller ones of its limit and period. A higher one comes anew."""
    session.execute(
        insert_into(session, UsageNotice)
        .values(
            tenant_id=tenant_id,
            limit_name=notice.limit.value,
            period=notice.period,
            percent=notice.percent,
            seen_at=at,
        )
        .on_conflict_do_update(
            index_elements=["tenant_id", "limit_name", "period", "percent"],
            set_={"seen_at": func.coalesce(UsageNotice.seen_at, at)},
        )
    )


def _periods(counters: Counters) -> dict[Limit, str]:
    return {Limit.PAGES_PER_DAY: counters.day, Limit.PAGES_PER_MONTH: counters.month}


def _percent(standing: Standing) -> int | None:
    """The highest threshold that is reached; None for none, and where nothing was used."""
    if standing.allowed is None or not standing.used:
        return None
    reached = [percent for percent in PERCENTS if percent * standing.allowed <= standing.used * 100]
    return max(reached, default=None)


def _closed(session: Session, tenant_id: str, periods: dict[Limit, str]) -> dict[tuple[str, str], int]:
    rows = session.execute(
        select(UsageNotice.limit_name, UsageNotice.period, func.max(UsageNotice.percent))
        .where(
            UsageNotice.tenant_id == tenant_id,
            UsageNotice.period.in_(periods.values()),
            UsageNotice.seen_at.is_not(None),
        )
        .group_by(UsageNotice.limit_name, UsageNotice.period)
    )
    return {(limit, period): percent for limit, period, percent in rows}
