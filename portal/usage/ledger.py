"""What becomes of reserved pages: posted when they were read, returned when not, each with its reason, once.

An entry, its reservation and the tenant's counters change in one transaction, the caller's, so they always agree.
Order of locks: the reservation's row, then the tenant's counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session

from models import LedgerEntry, Reservation, TenantUsage
from models.base import now
from portal.usage.limits import terms_of
from portal.usage.periods import period_at

Outcome = Literal["read", "blank", "failed", "truncated"]
Reason = Literal["cancelled", "identical", "swept", "late", "not_delivered", "tenant_deleted"]
Kind = Literal["reserved", "posted", "returned"]


@dataclass(frozen=True)
class EndedPage:
    """What is counted: whose page it was, and of which reservation, whose terms its entry takes.

    A sample's reservation is of 0 pages, so whatever becomes of its pages costs nothing.
    """

    tenant_id: str
    job_id: str
    page_id: str
    reservation_id: str


def end_page(session: Session, page: EndedPage, outcome: Outcome, *, is_portals_fault: bool = False) -> bool:
    """Posts or returns the page as it ended; True when it was charged.

    Only a page that was read is charged. Blank, cut and failed ones are not, up to the tenant's daily cap of such
    pages; what failed by the portal's own fault never is. A page that ends after its reservation was closed is not
    charged. Ending a page twice within a reservation fails the whole transaction.
    """
    reservation = _locked(session, page.tenant_id, page.reservation_id)
    if not _pending(reservation):
        reason = "sample" if reservation.reason == "sample" else "late"
        _enter(session, reservation, page, kind="returned", reason=reason, pages=0)
        return False
    if _is_posted(session, page):
        _move(session, reservation, returned=1)
        _enter(session, reservation, page, kind="returned", reason="charged_before", pages=1)
        return False
    if outcome == "read":
        _move(session, reservation, posted=1)
        _enter(session, reservation, page, kind="posted", reason="read", pages=1)
        return True
    if is_portals_fault or _is_within_cap(session, page.tenant_id):
        _move(session, reservation, returned=1)
        _enter(session, reservation, page, kind="returned", reason=outcome, pages=1)
        return False
    _move(session, reservation, posted=1)
    _enter(session, reservation, page, kind="posted", reason=f"{outcome}_over_cap", pages=1)
    return True


def return_page(session: Session, page: EndedPage, reason: Reason) -> None:
    """Returns one page that was not to be read any more, or whose reading was there already."""
    reservation = _locked(session, page.tenant_id, page.reservation_id)
    pages = min(1, _pending(reservation))
    _move(session, reservation, returned=pages)
    _enter(session, reservation, page, kind="returned", reason=reason, pages=pages)


def enter_identical(session: Session, tenant_id: str, reservation_id: str, page_ids: Sequence[str]) -> None:
    """Says of pages that were never reserved that they cost nothing: their readings were there already."""
    reservation = _locked(session, tenant_id, reservation_id)
    for page_id in page_ids:
        entry = entry_of(reservation, kind="returned", reason="identical", pages=0)
        entry.page_id = page_id
        session.add(entry)


def return_rest(
    session: Session, tenant_id: str, reservation_id: str, reason: Reason, *, pages: int | None = None
) -> int:
    """Returns all that is pending of the reservation, or `pages` of it; says how many pages that were."""
    reservation = _locked(session, tenant_id, reservation_id)
    rest = _pending(reservation) if pages is None else min(pages, _pending(reservation))
    if rest:
        _move(session, reservation, returned=rest)
        session.add(entry_of(reservation, kind="returned", reason=reason, pages=rest))
    return rest


def entry_of(reservation: Reservation, *, kind: Kind, reason: str, pages: int) -> LedgerEntry:
    """An entry on the reservation's terms, not of one page."""
    return LedgerEntry(
        tenant_id=reservation.tenant_id,
        member_id=reservation.member_id,
        api_key_id=reservation.api_key_id,
        reservation_id=reservation.id,
        job_id=reservation.job_id,
        task=reservation.task,
        engine=reservation.engine,
        kind=kind,
        reason=reason,
        pages=pages,
        day=reservation.day,
        month=reservation.month,
    )


def _enter(session: Session, reservation: Reservation, page: EndedPage, *, kind: Kind, reason: str, pages: int) -> None:
    entry = entry_of(reservation, kind=kind, reason=reason, pages=pages)
    entry.page_id = page.page_id
    session.add(entry)


def _is_posted(session: Session, page: EndedPage) -> bool:
    """True for a page that failed past the cap, was charged for it, and was retried: no page is charged twice."""
    own = (LedgerEntry.tenant_id == page.tenant_id, LedgerEntry.page_id == page.page_id, LedgerEntry.kind == "posted")
    return session.scalar(select(LedgerEntry.id).where(*own)) is not None


def _locked(session: Session, tenant_id: str, reservation_id: str) -> Reservation:
    return session.scalars(
        select(Reservation)
        .where(Reservation.tenant_id == tenant_id, Reservation.id == reservation_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()


def _pending(reservation: Reservation) -> int:
    return reservation.pages - reservation.posted - reservation.returned


def _move(session: Session, reservation: Reservation, *, posted: int = 0, returned: int = 0) -> None:
    """Takes pages out of what is pending, in the reservation and in the tenant's counters of its periods."""
    reservation.posted += posted
    reservation.returned += returned
    if not _pending(reservation):
        reservation.closed_at = now()
    session.flush()
    usage = TenantUsage
    session.execute(
        update(usage)
        .where(usage.tenant_id == reservation.tenant_id)
        .values(
            pending_pages=usage.pending_pages - posted - returned,
            day_pages=case((usage.day == reservation.day, usage.day_pages - returned), else_=usage.day_pages),
            day_posted=case((usage.day == reservation.day, usage.day_posted + posted), else_=usage.day_posted),
            month_pages=case((usage.month == reservation.month, usage.month_pages - returned), else_=usage.month_pages),
            month_posted=case(
                (usage.month == reservation.month, usage.month_posted + posted), else_=usage.month_posted
            ),
        )
        .execution_options(synchronize_session=False)
    )


def _is_within_cap(session: Session, tenant_id: str) -> bool:
    """Counts one uncharged page of today; False when the tenant has had as many as its cap allows."""
    at = now()
    terms = terms_of(session, tenant_id, at=at)
    day, cap, usage = period_at(at, terms.time_zone).day, terms.limits.uncharged_pages_per_day, TenantUsage
    so_far = case((usage.uncharged_day >= day, usage.uncharged_pages), else_=0)
    fits = (so_far + 1 <= cap,) if cap is not None else ()
    counted = session.execute(
        update(usage)
        .where(usage.tenant_id == tenant_id, *fits)
        .values(
            uncharged_day=case((usage.uncharged_day >= day, usage.uncharged_day), else_=day),
            uncharged_pages=so_far + 1,
        )
        .returning(usage.tenant_id)
        .execution_options(synchronize_session=False)
    )
    return counted.one_or_none() is not None
