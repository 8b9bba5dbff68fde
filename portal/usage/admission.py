"""Pages are set aside here, or the limit that binds is named: one conditional UPDATE decides, all limits or none.

It works in the caller's transaction, together with what the pages are set aside for: both happen or neither. The
counters live in the tenant's one row, so any number of threads, processes and machines agree about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, case, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningUpdate

from models import Reservation, TenantUsage
from models.base import new_id, now
from portal.db import insert_into
from portal.domain import Principal
from portal.usage.bindings import refusal
from portal.usage.counters import Counters, counters_of, window_of
from portal.usage.ledger import entry_of
from portal.usage.limits import Limits, Terms, refuse_suspended, terms_of
from portal.usage.notices import note_thresholds
from portal.usage.periods import Period, period_at


@dataclass(frozen=True)
class Ask:
    """What pages are asked for: how many, for which job (None at the door), task and engine, and on what occasion."""

    pages: int
    job_id: str | None
    task: str
    engine: str
    reason: Literal["submitted", "retried", "request", "sample"] = "submitted"


@dataclass(frozen=True)
class Held:
    """A reservation made: its id, the job it is for, and how the tenant's counters stand with it."""

    reservation_id: str
    job_id: str | None
    terms: Terms
    period: Period
    counters: Counters


def reserve(session: Session, principal: Principal, ask: Ask, *, at: datetime | None = None) -> Held:
    """Sets `ask.pages` pages aside and counts one request, at the aware moment `at` (now).

    Raises LimitReached, Forbidden when the tenant is suspended, NotFound when it is gone: the caller's transaction
    must then be rolled back, and nothing is counted.
    """
    at = at or now()
    terms = terms_of(session, principal.tenant_id, at=at)
    refuse_suspended(terms)
    period = period_at(at, terms.time_zone)
    counters = _counted(session, principal.tenant_id, ask.pages, terms.limits, period)
    reservation = _stored(session, principal, ask, counters)
    note_thresholds(session, principal.tenant_id, terms.limits, counters, pages=ask.pages)
    return Held(reservation.id, ask.job_id, terms, period, counters)


def _counted(session: Session, tenant_id: str, pages: int, limits: Limits, period: Period) -> Counters:
    for _ in range(3):
        row = session.execute(_count(tenant_id, pages, limits, period)).one_or_none()
        if row is not None:
            return Counters.of_row(row._mapping).rolled(period)
        if not _ensure_row(session, tenant_id):
            # Held, so that what was given back since the refusal is not gone again at the next try.
            counters = counters_of(session, tenant_id, period, is_held=True)
            refused = refusal(counters, limits, period, pages=pages)
            if refused is not None:
                raise refused
    raise AssertionError("the counters refuse what no limit forbids")


def _ensure_row(session: Session, tenant_id: str) -> bool:
    """True when the tenant's row had to be made: its first work ever."""
    made = session.execute(
        insert_into(session, TenantUsage)
        .values(tenant_id=tenant_id)
        .on_conflict_do_nothing()
        .returning(TenantUsage.tenant_id)
    )
    return made.one_or_none() is not None


def _count(tenant_id: str, pages: int, limits: Limits, period: Period) -> ReturningUpdate[Any]:
    """The one UPDATE: it counts the pages and the request where every limit allows it, else it finds no row."""
    rolled = _Rolled.at(period)
    fits = [TenantUsage.tenant_id == tenant_id, *_fits(rolled, pages, limits)]
    return (
        update(TenantUsage)
        .where(*fits)
        .values(
            day=rolled.day,
            day_pages=rolled.day_pages + pages,
            day_posted=rolled.day_posted,
            month=rolled.month,
            month_pages=rolled.month_pages + pages,
            month_posted=rolled.month_posted,
            pending_pages=TenantUsage.pending_pages + pages,
            window=rolled.window,
            window_requests=rolled.requests + 1,
            previous_requests=rolled.requests_before,
        )
        .returning(*TenantUsage.__table__.c)
        .execution_options(synchronize_session=False)
    )


@dataclass(frozen=True)
class _Rolled:
    """`Counters.rolled` in SQL: a clock that runs behind another's never turns a period back."""

    day: ColumnElement[str]
    day_pages: ColumnElement[int]
    day_posted: ColumnElement[int]
    month: ColumnElement[str]
    month_pages: ColumnElement[int]
    month_posted: ColumnElement[int]
    window: ColumnElement[int]
    requests: ColumnElement[int]
    requests_before: ColumnElement[int]
    recent_requests: ColumnElement[float]

    @classmethod
    def at(cls, period: Period) -> _Rolled:
        usage, (window, elapsed) = TenantUsage, window_of(period.at)
        is_day, is_month, is_window = usage.day >= period.day, usage.month >= period.month, usage.window >= window
        requests = case((is_window, usage.window_requests), else_=0)
        before = case(
            (is_window, usage.previous_requests), (usage.window == window - 1, usage.window_requests), else_=0
        )
        return cls(
            day=case((is_day, usage.day), else_=period.day),
            day_pages=case((is_day, usage.day_pages), else_=0),
            day_posted=case((is_day, usage.day_posted), else_=0),
            month=case((is_month, usage.month), else_=period.month),
            month_pages=case((is_month, usage.month_pages), else_=0),
            month_posted=case((is_month, usage.month_posted), else_=0),
            window=case((is_window, usage.window), else_=window),
            requests=requests,
            requests_before=before,
            recent_requests=before * (1 - elapsed) + requests,
        )


def _fits(rolled: _Rolled, pages: int, limits: Limits) -> Iterator[ColumnElement[bool]]:
    if limits.requests_per_minute is not None:
        yield rolled.recent_requests + 1 <= limits.requests_per_minute
    if not pages:
        return
    if limits.pages_per_day is not None:
        yield rolled.day_pages + pages <= limits.pages_per_day
    if limits.pages_per_month is not None:
        yield rolled.month_pages + pages <= limits.pages_per_month
    if limits.pages_in_flight is not None:
        yield TenantUsage.pending_pages + pages <= limits.pages_in_flight


def _stored(session: Session, principal: Principal, ask: Ask, counters: Counters) -> Reservation:
    reservation = Reservation(
        id=new_id("res"),
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        api_key_id=principal.api_key_id,
        job_id=ask.job_id,
        task=ask.task,
        engine=ask.engine,
        reason=ask.reason,
        day=counters.day,
        month=counters.month,
        pages=ask.pages,
        created_at=now(),
        closed_at=None if ask.pages else now(),
    )
    session.add(reservation)
    session.add(entry_of(reservation, kind="reserved", reason=ask.reason, pages=ask.pages))
    return reservation
