"""The whole portal at a glance, for its admin: pages by day and by tenant, what was refused, what waits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import Job, LedgerEntry, Page, RefusalCount, Reservation, Tenant
from models.base import now
from portal.domain import PageState

DAYS = 30
_MOST_TENANTS = 10


@dataclass(frozen=True)
class DayTotals:
    """A day (2026-11-30, as each tenant counts it): charged pages and refused requests."""

    day: str
    charged: int
    refused_requests: int


@dataclass(frozen=True)
class Overview:
    """The last 30 days, oldest first; charged pages of the tenants with most; the queue now.

    `oldest_seconds` is how long the oldest waiting page waits since it was asked for, at submission or its last retry;
    None when none does: unknown is not 0.
    """

    days: tuple[DayTotals, ...]
    tenants: tuple[tuple[str, int], ...]
    queued_pages: int
    running_pages: int
    oldest_seconds: float | None


@dataclass(frozen=True)
class Queue:
    """All tenants' pages now. `oldest_seconds` as in the overview."""

    queued_pages: int
    running_pages: int
    oldest_seconds: float | None


def overview(session: Session, *, at: datetime | None = None) -> Overview:
    """Of all tenants, at the aware moment `at` (now)."""
    at = at or now()
    first = at - timedelta(days=DAYS - 1)
    names = [f"{first + timedelta(days=number):%Y-%m-%d}" for number in range(DAYS)]
    queue = queue_now(session, at=at)
    return Overview(
        days=_days(session, names),
        tenants=_tenants(session, names[0]),
        queued_pages=queue.queued_pages,
        running_pages=queue.running_pages,
        oldest_seconds=queue.oldest_seconds,
    )


def queue_now(session: Session, *, at: datetime | None = None) -> Queue:
    """What waits and what is read at the aware moment `at` (now)."""
    queued, oldest = _queue(session)
    return Queue(
        queued_pages=queued,
        running_pages=session.scalar(select(func.count()).where(Page.state == PageState.RUNNING)) or 0,
        oldest_seconds=max(0.0, ((at or now()) - oldest).total_seconds()) if oldest else None,
    )


def _days(session: Session, names: list[str]) -> tuple[DayTotals, ...]:
    entry = LedgerEntry
    ended = session.execute(
        select(entry.day, func.sum(entry.pages))
        .where(entry.kind == "posted", entry.day >= names[0], entry.day <= names[-1])
        .group_by(entry.day)
    )
    charged = {day: int(pages) for day, pages in ended}
    refusals = session.execute(
        select(RefusalCount.day, func.sum(RefusalCount.requests))
        .where(RefusalCount.day >= names[0])
        .group_by(RefusalCount.day)
    )
    refused = {day: int(number) for day, number in refusals}
    return tuple(DayTotals(name, charged.get(name, 0), refused.get(name, 0)) for name in names)


def _tenants(session: Session, first_day: str) -> tuple[tuple[str, int], ...]:
    charged = func.sum(LedgerEntry.pages)
    rows = session.execute(
        select(func.coalesce(Tenant.name, "(deleted tenants)"), charged)
        .select_from(LedgerEntry)
        .outerjoin(Tenant, Tenant.id == LedgerEntry.tenant_id)
        .where(LedgerEntry.day >= first_day, LedgerEntry.kind == "posted")
        .group_by(Tenant.name)
        .order_by(charged.desc(), Tenant.name)
        .limit(_MOST_TENANTS)
    )
    return tuple((name, int(pages)) for name, pages in rows)


def _queue(session: Session) -> tuple[int, datetime | None]:
    row = session.execute(
        select(func.count(), func.min(func.coalesce(Reservation.created_at, Job.created_at)))
        .select_from(Page)
        .join(Job, Job.id == Page.job_id)
        .outerjoin(Reservation, Reservation.id == Page.reservation_id)
        .where(Page.state == PageState.QUEUED)
    ).one()
    return row[0], row[1]
