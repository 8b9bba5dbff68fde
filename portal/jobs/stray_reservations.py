"""Reservations that are nobody's any more: what they still hold is given back, and it is said how much that was.

A reservation lives as long as the pages it is for, not by a timer: what it holds beyond the pages that still wait or
are read is a stray. A request at the door has no pages: its reservation is a stray once its process is gone, and
past any request's deadline.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from models import Page, Reservation
from models.base import now
from portal.db import Database
from portal.domain import PageState
from portal.jobs import claims
from portal.jobs.presence import LOOK_SECONDS, gone
from portal.usage.ledger import return_rest

REQUEST_DEADLINE = timedelta(hours=1)
_AT_ONCE = 500


@dataclass(frozen=True)
class Swept:
    """How many reservations were found to be nobody's, and the pages that went back to their tenants."""

    reservations: int = 0
    pages: int = 0


def strays(session: Session, *, at: datetime | None = None) -> dict[str, list[tuple[str, int]]]:
    """Tenant → (reservation, pages that it holds for nobody) of up to 500 strays, the oldest first. All tenants."""
    held = Reservation.pages - Reservation.posted - Reservation.returned
    surplus = held - _wanted()
    is_request = Reservation.reason == "request"
    is_lost = or_(
        Reservation.created_at < (at or now()) - REQUEST_DEADLINE, Reservation.holder.in_(_gone_holders(session))
    )
    rows = session.execute(
        select(Reservation.tenant_id, Reservation.id, surplus)
        .where(Reservation.closed_at.is_(None), surplus > 0, or_(~is_request, is_lost))
        .order_by(Reservation.created_at)
        .limit(_AT_ONCE)
    )
    found: dict[str, list[tuple[str, int]]] = {}
    for tenant_id, reservation_id, pages in rows:
        found.setdefault(tenant_id, []).append((reservation_id, int(pages)))
    return found


def sweep_reservations(database: Database, *, at: datetime | None = None) -> Swept:
    """Gives back what strays hold, each in a transaction of its own (reason swept). Raises Unavailable.

    On Postgres a process may have lost its lock with its connection and live: before any is taken for gone, it is
    looked at once more after the time in which it takes its lock again.
    """
    with database.reading() as session:
        found = strays(session, at=at)
        is_anybody_gone = bool(_gone_holders(session))
    if is_anybody_gone and not database.is_sqlite:
        time.sleep(2 * LOOK_SECONDS)
        with database.reading() as session:
            found = strays(session, at=at)
    returned = [
        _give_back(database, tenant_id, reservation_id)
        for tenant_id, reservations in found.items()
        for reservation_id, _ in reservations
    ]
    return Swept(sum(pages > 0 for pages in returned), sum(returned))


def _gone_holders(session: Session) -> set[str]:
    holding = (
        select(Reservation.holder).where(Reservation.closed_at.is_(None), Reservation.holder.is_not(None)).distinct()
    )
    return gone(session, [holder for holder in session.scalars(holding) if holder is not None])


def _wanted() -> ColumnElement[int]:
    """How many pages of the reservation have not ended."""
    return (
        select(func.count())
        .select_from(Page)
        .where(
            Page.tenant_id == Reservation.tenant_id,
            Page.job_id == Reservation.job_id,
            Page.reservation_id == Reservation.id,
            Page.state.in_((PageState.QUEUED, PageState.RUNNING)),
        )
        .correlate(Reservation)
        .scalar_subquery()
    )


def _give_back(database: Database, tenant_id: str, reservation_id: str) -> int:
    """Looked at again with its job held: pages of it may have ended or been retried since."""
    own = (Reservation.tenant_id == tenant_id, Reservation.id == reservation_id)
    with database.transaction() as session:
        job_id = session.scalar(select(Reservation.job_id).where(*own))
        if job_id is not None:
            claims.locked_job(session, tenant_id, job_id)
        surplus = session.scalar(
            select(Reservation.pages - Reservation.posted - Reservation.returned - _wanted()).where(*own)
        )
        return return_rest(session, tenant_id, reservation_id, "swept", pages=surplus) if surplus else 0
