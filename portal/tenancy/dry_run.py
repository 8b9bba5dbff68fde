"""Whom other limits would have refused last week: that week's reservations and refusals against proposed limits.

`replay` is pure. What was refused at the time is asked again, with the pages that were asked for: a raise shows as
fewer refusals. Refusals are counted by day, not by minute, so they are replayed at the end of their day.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import RefusalCount, Reservation, Tenant
from models.base import now
from portal.domain import Limit
from portal.errors import NotFound
from portal.usage.limit_values import checked
from portal.usage.limits import Limits, terms_of
from portal.usage.periods import period_at

DAYS = 7
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Asked:
    """One request as it came: when (aware), its pages; `ended_at` when they were no longer in flight, None if still.

    `requests` above 1 and `was_refused` are of refusals counted together.
    """

    at: datetime
    pages: int
    ended_at: datetime | None
    requests: int = 1
    was_refused: bool = False


@dataclass(frozen=True)
class WouldRefuse:
    """A request that the proposed limits would have refused, by the limit that binds."""

    at: datetime
    pages: int
    requests: int
    limit: Limit
    was_refused: bool


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


@dataclass
class _Week:
    """What the replay has let in so far."""

    days: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    months: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    in_flight: list[Asked] = field(default_factory=list)
    recent: deque[datetime] = field(default_factory=deque)


def replay(
    asked: Iterable[Asked], limits: Limits, time_zone: str, *, month_pages: dict[str, int] | None = None
) -> tuple[WouldRefuse, ...]:
    """What the limits would have refused of the requests. Each is let in whole or refused whole, as admission does.

    `month_pages` is what was used of each month (2026-11) before the first of them.
    """
    week = _Week()
    week.months.update(month_pages or {})
    refused = []
    for one in sorted(asked, key=lambda request: request.at):
        bound = _binding(one, limits, time_zone, week)
        if bound is None:
            _let_in(one, time_zone, week)
        else:
            refused.append(WouldRefuse(one.at, one.pages, one.requests, bound, one.was_refused))
    return tuple(refused)


def _binding(one: Asked, limits: Limits, zone: str, week: _Week) -> Limit | None:
    period = period_at(one.at, zone)
    week.in_flight = [held for held in week.in_flight if held.ended_at is None or held.ended_at > one.at]
    while week.recent and week.recent[0] <= one.at - _MINUTE:
        week.recent.popleft()
    in_flight = sum(held.pages for held in week.in_flight)
    counted = (
        (Limit.PAGES_PER_MONTH, limits.pages_per_month, week.months[period.month], one.pages),
        (Limit.PAGES_PER_DAY, limits.pages_per_day, week.days[period.day], one.pages),
        (Limit.PAGES_IN_FLIGHT, limits.pages_in_flight, in_flight, 0 if one.was_refused else one.pages),
        (Limit.REQUESTS_PER_MINUTE, limits.requests_per_minute, len(week.recent), 0 if one.was_refused else 1),
    )
    return next(
        (limit for limit, allowed, used, more in counted if allowed is not None and more and used + more > allowed),
        None,
    )


def _let_in(one: Asked, zone: str, week: _Week) -> None:
    period = period_at(one.at, zone)
    week.days[period.day] += one.pages
    week.months[period.month] += one.pages
    if not one.was_refused:
        week.in_flight.append(one)
        week.recent.append(one.at)


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
    asked = [*_reserved(session, tenant_id, since, at), *_refused(session, tenant_id, terms.time_zone, since, at)]
    before = _used_before(session, tenant_id, since)
    refused = replay(asked, replace(terms.limits, **changes), terms.time_zone, month_pages=before)
    return Verdict(tenant_id, name, sum(one.requests for one in asked), sum(one.pages for one in asked), refused)


def _reserved(session: Session, tenant_id: str, since: datetime, at: datetime) -> list[Asked]:
    rows = session.execute(
        select(Reservation.created_at, Reservation.pages, Reservation.closed_at).where(
            Reservation.tenant_id == tenant_id, Reservation.created_at > since, Reservation.created_at <= at
        )
    )
    return [Asked(row.created_at, row.pages, row.closed_at) for row in rows]


def _refused(session: Session, tenant_id: str, zone: str, since: datetime, at: datetime) -> list[Asked]:
    rows = session.execute(
        select(RefusalCount.last_at, RefusalCount.pages, RefusalCount.requests).where(
            RefusalCount.tenant_id == tenant_id,
            RefusalCount.day > period_at(since, zone).day,
            RefusalCount.last_at <= at,
        )
    )
    return [Asked(row.last_at, row.pages, row.last_at, row.requests, was_refused=True) for row in rows]


def _used_before(session: Session, tenant_id: str, since: datetime) -> dict[str, int]:
    first = f"{since:%Y-%m}"
    rows = session.execute(
        select(Reservation.month, Reservation.pages, Reservation.returned).where(
            Reservation.tenant_id == tenant_id, Reservation.created_at <= since, Reservation.month >= first
        )
    )
    used: dict[str, int] = defaultdict(int)
    for row in rows:
        used[row.month] += row.pages - row.returned
    return used
