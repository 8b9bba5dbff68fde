"""Whom other limits would have refused last week: that week's reservations and refusals against proposed limits.

What was refused at the time is asked again, with the pages that were asked for: a raise shows as fewer refusals.
Refusals are counted by day, not by minute, so they are asked again when the rest has been (portal/tenancy/replay.py).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from models import LedgerEntry, RefusalCount, Reservation, Tenant
from models.base import now
from portal.domain import Limit
from portal.errors import NotFound
from portal.tenancy.replay import Asked, Before, Ended, Refused, WouldRefuse, replay
from portal.usage.limit_values import checked
from portal.usage.limits import Limits, Terms, terms_of
from portal.usage.periods import period_at

DAYS = 7


@dataclass(frozen=True)
class Verdict:
    """A tenant's week under the proposed limits. Pages and requests that came, and those that would be refused."""

    tenant_id: str
    tenant_name: str
    requests: int
    pages: int
    refused: tuple[WouldRefuse, ...] = ()

    @property
    def refused_pages(self) -> int:
        """Pages of requests that would be refused."""
        return sum(one.pages for one in self.refused)

    @property
    def refused_requests(self) -> int:
        """Requests that would be refused."""
        return sum(one.requests for one in self.refused)

    @property
    def newly_refused_pages(self) -> int:
        """Those of the refused pages that were let in at the time."""
        return sum(one.pages for one in self.refused if not one.was_refused)


def dry_run(
    session: Session,
    proposed: dict[Limit, float | None],
    *,
    tenant_id: str | None = None,
    at: datetime | None = None,
) -> list[Verdict]:
    """The week before `at` (now) of one tenant or all, what `proposed` leaves out being as each tenant has it.

    Those that would be refused most come first. Raises NotFound (tenant_unknown) and InvalidRequest (limit_invalid).
    """
    at = at or now()
    changes: dict[str, Any] = {limit.value: checked(limit, value) for limit, value in proposed.items()}
    tenants = select(Tenant.id, Tenant.name).order_by(Tenant.name)
    rows = session.execute(tenants if tenant_id is None else tenants.where(Tenant.id == tenant_id)).all()
    if tenant_id is not None and not rows:
        raise NotFound("There is no such tenant.", code="tenant_unknown")
    verdicts = [_verdict(session, row.id, row.name, changes, at) for row in rows]
    return sorted(verdicts, key=lambda verdict: (-verdict.refused_pages, -verdict.refused_requests))


def _verdict(session: Session, tenant_id: str, name: str, changes: dict[str, Any], at: datetime) -> Verdict:
    terms, since = terms_of(session, tenant_id, at=at), at - timedelta(days=DAYS)
    zone, came = terms.time_zone, _reserved(session, tenant_id, since, at)
    asked = [*(one for one in came if one.at > since), *_refused(session, tenant_id, terms, since, at)]
    in_flight = tuple(one for one in came if one.at <= since)
    before = Before(_used_before(session, tenant_id, zone, since), in_flight)
    refused = replay(asked, replace(terms.limits, **changes), zone, before=before)
    return Verdict(tenant_id, name, sum(one.requests for one in asked), sum(one.pages for one in asked), refused)


def _reserved(session: Session, tenant_id: str, since: datetime, at: datetime) -> list[Asked]:
    """What was asked for since then, or was in flight then."""
    counts = (
        Reservation.tenant_id == tenant_id,
        Reservation.created_at <= at,
        or_(Reservation.created_at > since, Reservation.closed_at.is_(None), Reservation.closed_at > since),
    )
    ends = _ends(session, tenant_id, select(Reservation.id).where(*counts))
    rows = session.execute(
        select(Reservation.id, Reservation.created_at, Reservation.pages, Reservation.day).where(*counts)
    )
    return [Asked(row.created_at, row.pages, tuple(ends.get(row.id, ())), row.day) for row in rows]


def _ends(session: Session, tenant_id: str, reservation_ids: Select[str]) -> dict[str, list[Ended]]:
    """Reservation → when its pages ended."""
    entry = LedgerEntry
    rows = session.execute(
        select(entry.reservation_id, entry.created_at, entry.pages, entry.kind).where(
            entry.tenant_id == tenant_id,
            entry.kind != "reserved",
            entry.pages > 0,
            entry.reservation_id.in_(reservation_ids),
        )
    )
    found: dict[str, list[Ended]] = defaultdict(list)
    for row in rows:
        found[row.reservation_id].append(Ended(row.created_at, row.pages, row.kind == "returned"))
    return found


def _refused(session: Session, tenant_id: str, terms: Terms, since: datetime, at: datetime) -> list[Asked]:
    rows = session.scalars(
        select(RefusalCount).where(
            RefusalCount.tenant_id == tenant_id,
            RefusalCount.day > period_at(since, terms.time_zone).day,
            RefusalCount.last_at <= at,
        )
    )
    return [
        Asked(row.last_at, row.pages, day=row.day, requests=row.requests, refused_by=_refused_by(row, terms.limits))
        for row in rows
    ]


def _refused_by(row: RefusalCount, present: Limits) -> Refused:
    """Where a former release did not store what the limit was, it is taken to have been what it is now."""
    limit, allowed = Limit(row.limit_name), row.allowed
    if allowed is None and (value := present.value(limit)) is not None:
        allowed = int(value)
    return Refused(limit, allowed)


def _used_before(session: Session, tenant_id: str, zone: str, since: datetime) -> dict[str, int]:
    """Pages of what had ended by then, by the days and months of then and later."""
    rows = session.execute(
        select(Reservation.day, func.sum(Reservation.posted))
        .where(
            Reservation.tenant_id == tenant_id,
            Reservation.closed_at <= since,
            Reservation.month >= period_at(since, zone).month,
        )
        .group_by(Reservation.day)
    )
    used: dict[str, int] = defaultdict(int)
    for day, pages in rows:
        used[day] += int(pages)
        used[day[:7]] += int(pages)
    return used
