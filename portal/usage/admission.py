"""Pages are set aside here, or the limit that binds is named: one conditional UPDATE decides, all limits or none.

It works in the caller's transaction, together with what the pages are set aside for: both happen or neither. The
counters live in the tenant's one row, so any number of threads, processes and machines agree about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal

from sqlalchemy import Float, Integer, String, bindparam, case, insert, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningUpdate

from models import LedgerEntry, Reservation, TenantUsage
from models.base import new_id, now
from portal.db import insert_into
from portal.domain import Limit, Principal
from portal.errors import DocumentRefused
from portal.usage.bindings import refusal
from portal.usage.counters import Counters, counters_of, window_of
from portal.usage.limits import Limits, Terms, refuse_suspended, terms_of
from portal.usage.periods import Period, period_at

_BINDING = frozenset(
    limit.value
    for limit in (Limit.REQUESTS_PER_MINUTE, Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH, Limit.PAGES_IN_FLIGHT)
)
_GIVEN = ("tenant", "asked", "today", "this_month", "this_window", "rest_of_window")
_RESERVE, _ENTER = insert(Reservation.__table__), insert(LedgerEntry.__table__)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ask:
    """What pages are asked for: how many, for which job (None at the door), task and engine, and on what occasion.

    `file_bytes` is the size of a file that is not looked at otherwise: the plan's limit is applied to it here. `holder`
    names the process without which the pages are nobody's; those of a job are its job's.
    """

    pages: int
    job_id: str | None
    task: str
    engine: str
    reason: Literal["submitted", "retried", "request", "sample"] = "submitted"
    file_bytes: int = 0
    holder: str | None = None


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

    Raises LimitReached, Forbidden when the tenant is suspended, NotFound when it is gone, DocumentRefused: then nothing
    is written or counted.
    """
    at = at or now()
    terms = terms_of(session, principal.tenant_id, at=at)
    refuse_suspended(terms)
    _refuse_large_file(ask, terms.limits)
    period = period_at(at, terms.time_zone)
    counters = _counted(session, principal.tenant_id, ask.pages, terms.limits, period)
    reservation_id = _stored(session, principal, ask, counters)
    return Held(reservation_id, ask.job_id, terms, period, counters)


def count_request(session: Session, principal: Principal) -> None:
    """Counts one request that sets no pages aside.

    Raises LimitReached (rate_limited), NotFound when the tenant is gone: then none is counted.
    """
    at = now()
    terms = terms_of(session, principal.tenant_id, at=at)
    _counted(session, principal.tenant_id, 0, terms.limits, period_at(at, terms.time_zone))


def _refuse_large_file(ask: Ask, limits: Limits) -> None:
    allowed = limits.max_file_bytes
    if allowed is not None and ask.file_bytes > allowed:
        raise DocumentRefused(
            f"The file is larger than the {allowed / 2**20:.4g} MiB that your plan allows.",
            code="file_too_large",
            remedy="Send it as JPEG, or scanned at a lower resolution; or ask for more on the Usage page.",
        )


def _counted(session: Session, tenant_id: str, pages: int, limits: Limits, period: Period) -> Counters:
    window, elapsed = window_of(period.at)
    given = {
        "tenant": tenant_id,
        "asked": pages,
        "today": period.day,
        "this_month": period.month,
        "this_window": window,
        "rest_of_window": 1 - elapsed,
        **{name: getattr(limits, name) for name in _BINDING if getattr(limits, name) is not None},
    }
    binding = frozenset(given.keys() & (_BINDING if pages else {Limit.REQUESTS_PER_MINUTE.value}))
    for _ in range(3):
        row = session.execute(_count(binding), {name: given[name] for name in (*_GIVEN, *binding)}).one_or_none()
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


@cache  # building it takes longer than running it
def _count(binding: frozenset[str]) -> ReturningUpdate[Any]:
    """The one UPDATE: it counts the pages and the request where every limit allows it, else it finds no row.

    `binding` names the limits that there are. Periods are rolled as `Counters.rolled` does: a clock that runs behind
    another's never turns one back.
    """
    usage, pages = TenantUsage.__table__.c, bindparam("asked", type_=Integer)
    day, month = bindparam("today", type_=String), bindparam("this_month", type_=String)
    window = bindparam("this_window", type_=Integer)
    is_day, is_month, is_window = usage.day >= day, usage.month >= month, usage.window >= window
    day_pages = case((is_day, usage.day_pages), else_=0)
    month_pages = case((is_month, usage.month_pages), else_=0)
    requests = case((is_window, usage.window_requests), else_=0)
    before = case((is_window, usage.previous_requests), (usage.window == window - 1, usage.window_requests), else_=0)
    counted = {
        Limit.REQUESTS_PER_MINUTE.value: before * bindparam("rest_of_window", type_=Float) + requests + 1,
        Limit.PAGES_PER_DAY.value: day_pages + pages,
        Limit.PAGES_PER_MONTH.value: month_pages + pages,
        Limit.PAGES_IN_FLIGHT.value: usage.pending_pages + pages,
    }
    return (
        update(TenantUsage.__table__)  # type: ignore[arg-type]
        .where(usage.tenant_id == bindparam("tenant", type_=String))
        .where(*(counted[name] <= bindparam(name, type_=Integer) for name in sorted(binding)))
        .values(
            day=case((is_day, usage.day), else_=day),
            day_pages=day_pages + pages,
            day_posted=case((is_day, usage.day_posted), else_=0),
            month=case((is_month, usage.month), else_=month),
            month_pages=month_pages + pages,
            month_posted=case((is_month, usage.month_posted), else_=0),
            pending_pages=usage.pending_pages + pages,
            window=case((is_window, usage.window), else_=window),
            window_requests=requests + 1,
            previous_requests=before,
        )
        .returning(*usage)
    )


def _stored(session: Session, principal: Principal, ask: Ask, counters: Counters) -> str:
    """The id of the new reservation, stored with its entry in the ledger."""
    moment = now()
    terms = {
        "tenant_id": principal.tenant_id,
        "member_id": principal.member_id,
        "api_key_id": principal.api_key_id,
        "job_id": ask.job_id,
        "task": ask.task,
        "engine": ask.engine,
        "reason": ask.reason,
        "day": counters.day,
        "month": counters.month,
        "pages": ask.pages,
        "created_at": moment,
    }
    reservation_id = new_id("res")
    closed = {"posted": 0, "returned": 0, "closed_at": None if ask.pages else moment, "holder": ask.holder}
    session.execute(_RESERVE, terms | closed | {"id": reservation_id})
    entry = {"id": new_id("led"), "reservation_id": reservation_id, "page_id": None, "kind": "reserved"}
    session.execute(_ENTER, terms | entry)
    return reservation_id
