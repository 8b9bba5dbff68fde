"""A tenant hears once a period that half, four fifths or all of a quota is used.

What is told follows from how the tenant stands, however it came there: by pages, or by an admin who lowered the limit.
Stored is only what somebody closed, with what the limit was: a raise within the period makes shares of the new limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from models import UsageNotice
from portal.db import insert_into
from portal.domain import Limit, Standing
from portal.usage.counters import Counters
from portal.usage.standing import TenantStanding

PERCENTS = (50, 80, 100)


@dataclass(frozen=True)
class Notice:
    """A share of a limit, `allowed` pages, that is reached within the period (a day or a month by its name)."""

    limit: Limit
    period: str
    percent: int
    allowed: int


def open_notices(session: Session, tenant_id: str, standing: TenantStanding) -> list[Notice]:
    """The highest notice of the present day and month, unless somebody of the tenant closed one that says as much."""
    periods = _periods(standing.counters)
    closed = _closed(session, tenant_id, periods)
    reached = [
        Notice(one.limit, periods[one.limit], percent, one.allowed)
        for one in standing.standings
        if one.limit in periods and one.allowed is not None and (percent := _percent(one)) is not None
    ]
    told = [notice for notice in reached if not any(_says_as_much(seen, notice) for seen in closed)]
    return sorted(told, key=lambda notice: notice.limit.value)


def close_notice(session: Session, tenant_id: str, notice: Notice, *, at: datetime) -> None:
    """Notes that somebody saw it, and with it the smaller ones of its limit and period.

    One of a higher share comes anew, and so does one of more pages when the limit was raised.
    """
    table = UsageNotice
    session.execute(
        insert_into(session, table)
        .values(
            tenant_id=tenant_id,
            limit_name=notice.limit.value,
            period=notice.period,
            percent=notice.percent,
            seen_at=at,
            allowed=notice.allowed,
        )
        .on_conflict_do_update(
            index_elements=["tenant_id", "limit_name", "period", "percent"],
            set_={
                "seen_at": func.coalesce(table.seen_at, at),
                "allowed": case(
                    (or_(table.seen_at.is_(None), table.allowed < notice.allowed), notice.allowed), else_=table.allowed
                ),
            },
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


def _closed(session: Session, tenant_id: str, periods: dict[Limit, str]) -> Sequence[UsageNotice]:
    return session.scalars(
        select(UsageNotice).where(
            UsageNotice.tenant_id == tenant_id,
            UsageNotice.period.in_(periods.values()),
            UsageNotice.seen_at.is_not(None),
        )
    ).all()


def _says_as_much(seen: UsageNotice, notice: Notice) -> bool:
    """Whether the closed one is of the same limit and period, and of no smaller share and no fewer pages."""
    is_same = (seen.limit_name, seen.period) == (notice.limit.value, notice.period)
    is_of_the_pages = seen.allowed is None or seen.percent * seen.allowed >= notice.percent * notice.allowed
    return is_same and seen.percent >= notice.percent and is_of_the_pages
