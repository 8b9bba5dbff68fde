"""Whether the books agree: entries = reservations = counters, tenant by tenant, at one moment.

`check` changes nothing. `repair` makes reservations and counters say again what the entries say: entries are never
changed, so they are the truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from models import LedgerEntry, Reservation, Tenant, TenantUsage
from models.base import now
from portal.db import insert_into
from portal.usage.limits import terms_of
from portal.usage.periods import Period, period_at

Sums = tuple[int, int, int]  # reserved, posted, returned pages
_KINDS = ("reserved", "posted", "returned")


@dataclass
class TenantBooks:
    """A tenant's sums in pages, and each disagreement in words; none when the books agree."""

    tenant_id: str
    tenant_name: str
    entries: Sums = (0, 0, 0)
    reservations: Sums = (0, 0, 0)
    pending: int = 0
    faults: list[str] = field(default_factory=list)


def check(session: Session, *, at: datetime | None = None) -> list[TenantBooks]:
    """All tenants' books, by name. Give it one snapshot (`Database.reading`), and it holds while work goes on."""
    entered, held = _entered(session), _held(session)
    usages = {usage.tenant_id: usage for usage in session.scalars(select(TenantUsage))}
    checked = []
    for tenant_id, name in session.execute(select(Tenant.id, Tenant.name).order_by(Tenant.name)).all():
        own = held.get(tenant_id, [])
        books = TenantBooks(
            tenant_id,
            name,
            entries=_added(entered[tenant_id].values()),
            reservations=_added((row.pages, row.posted, row.returned) for row in own),
        )
        books.faults += _faults_of_reservations(entered[tenant_id], own)
        usage = usages.get(tenant_id)
        if usage is not None:
            books.pending = usage.pending_pages
            period = period_at(at or now(), terms_of(session, tenant_id, at=at or now()).time_zone)
            books.faults += _faults_of_counters(usage, own, period)
        elif own:
            books.faults.append("there are reservations and no counters")
        checked.append(books)
    return checked


def repair(session: Session, tenant_id: str, *, at: datetime | None = None) -> None:
    """Mends the tenant's books by its entries: the reservations first, then the counters by the reservations.

    Whoever ends or asks for pages of the tenant waits until the caller's transaction ends, and what was asked for in
    the meantime counts. Order of locks: the reservations' rows, then the tenant's counters. `at` is asked only when
    they are held: it may be another day by then.
    """
    _mend_reservations(session, tenant_id)
    usage = _held_counters(session, tenant_id)
    at = at or now()
    period = period_at(at, terms_of(session, tenant_id, at=at).time_zone)
    _mend_counters(session, usage, period)


def _mend_reservations(session: Session, tenant_id: str) -> None:
    reservations = session.scalars(
        select(Reservation)
        .where(Reservation.tenant_id == tenant_id)
        .order_by(Reservation.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    entered = _entered(session, tenant_id)[tenant_id]
    for row in reservations:
        row.pages, row.posted, row.returned = entered.get(row.id, (0, 0, 0))
        is_open = row.posted + row.returned < row.pages
        row.closed_at = None if is_open else row.closed_at or now()
    session.flush()


def _held_counters(session: Session, tenant_id: str) -> TenantUsage:
    session.execute(insert_into(session, TenantUsage).values(tenant_id=tenant_id).on_conflict_do_nothing())
    return session.scalars(
        select(TenantUsage)
        .where(TenantUsage.tenant_id == tenant_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()


def _mend_counters(session: Session, usage: TenantUsage, period: Period) -> None:
    """Sums what is stored now, with the counters held: reservations made since the others were locked are among it.

    A day or month that is rightly ahead (the zone was changed) is kept, as admission keeps it.
    """
    table = Reservation
    reservations = session.execute(
        select(table.day, table.month, table.pages, table.posted, table.returned).where(
            table.tenant_id == usage.tenant_id
        )
    ).all()
    usage.day, usage.month = _counted_period(usage, period)
    today = [row for row in reservations if row.day == usage.day]
    month = [row for row in reservations if row.month == usage.month]
    usage.day_pages = sum(row.pages - row.returned for row in today)
    usage.day_posted = sum(row.posted for row in today)
    usage.month_pages = sum(row.pages - row.returned for row in month)
    usage.month_posted = sum(row.posted for row in month)
    usage.pending_pages = sum(row.pages - row.posted - row.returned for row in reservations)
    usage.uncharged_day = period.day if usage.uncharged_day > _latest_day(period) else usage.uncharged_day
    usage.window = usage.window_requests = usage.previous_requests = 0
    session.flush()


def _counted_period(usage: TenantUsage, period: Period) -> tuple[str, str]:
    """Day and month that the counters are of: the period's, or later ones that it may be."""
    latest = _latest_day(period)
    is_wrong = usage.day > latest or usage.month > latest[:7]
    return (period.day, period.month) if is_wrong else (max(usage.day, period.day), max(usage.month, period.month))


def _latest_day(period: Period) -> str:
    """A change of zone may leave counters two days ahead; more is a clock that was wrong, and locks the tenant out."""
    return f"{period.day_ends_at + timedelta(days=2):%Y-%m-%d}"


def _entered(session: Session, tenant_id: str | None = None) -> defaultdict[str, dict[str, Sums]]:
    """Tenant → reservation → what its entries say."""
    entry = LedgerEntry
    kinds = [func.coalesce(func.sum(case((entry.kind == kind, entry.pages), else_=0)), 0) for kind in _KINDS]
    own = () if tenant_id is None else (entry.tenant_id == tenant_id,)
    rows = session.execute(
        select(entry.tenant_id, entry.reservation_id, *kinds)
        .where(*own)
        .group_by(entry.tenant_id, entry.reservation_id)
    )
    found: defaultdict[str, dict[str, Sums]] = defaultdict(dict)
    for owner, reservation_id, reserved, posted, returned in rows:
        found[owner][reservation_id] = (int(reserved), int(posted), int(returned))
    return found


def _held(session: Session) -> dict[str, list[Reservation]]:
    found: dict[str, list[Reservation]] = {}
    for row in session.scalars(select(Reservation)):
        found.setdefault(row.tenant_id, []).append(row)
    return found


def _added(sums: Iterable[Sums]) -> Sums:
    rows = list(sums)
    return sum(row[0] for row in rows), sum(row[1] for row in rows), sum(row[2] for row in rows)


def _faults_of_reservations(entered: dict[str, Sums], own: list[Reservation]) -> Iterator[str]:
    known = {row.id for row in own}
    for row in own:
        said = entered.get(row.id, (0, 0, 0))
        if said != (row.pages, row.posted, row.returned):
            yield f"{row.id} holds {(row.pages, row.posted, row.returned)} pages, its entries say {said}"
        if (row.closed_at is None) != (row.posted + row.returned < row.pages):
            yield f"{row.id} is {'open' if row.closed_at is None else 'closed'}, its pages say otherwise"
    for reservation_id in entered.keys() - known:
        yield f"entries of {reservation_id}, which is gone"


def _faults_of_counters(usage: TenantUsage, own: list[Reservation], period: Period) -> Iterator[str]:
    today = [row for row in own if row.day == usage.day]
    month = [row for row in own if row.month == usage.month]
    expected = {
        "pending_pages": sum(row.pages - row.posted - row.returned for row in own),
        "day_pages": sum(row.pages - row.returned for row in today),
        "day_posted": sum(row.posted for row in today),
        "month_pages": sum(row.pages - row.returned for row in month),
        "month_posted": sum(row.posted for row in month),
    }
    for name, pages in expected.items():
        if getattr(usage, name) != pages:
            yield f"counter {name} is {getattr(usage, name)}, the reservations say {pages}"
    ahead = max(usage.day, usage.uncharged_day)
    if ahead > _latest_day(period):
        yield f"counters are of {ahead}, which is yet to come"
