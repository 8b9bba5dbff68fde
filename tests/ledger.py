"""What tests ask the ledger: how each page of a job ended, and what it cost."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import LedgerEntry, Page, Reservation, TenantLimit, TenantUsage
from portal.db import Database


def page_ends(session: Session, job_id: str) -> list[tuple[str, int]]:
    """(reason, charged pages) of each page that ended, as the ledger has it, by position and then by time."""
    rows = session.execute(
        select(LedgerEntry)
        .outerjoin(Page, Page.id == LedgerEntry.page_id)
        .where(LedgerEntry.job_id == job_id, LedgerEntry.page_id.is_not(None))
        .order_by(Page.position, LedgerEntry.created_at, LedgerEntry.id)
    ).scalars()
    return [(entry.reason, entry.pages if entry.kind == "posted" else 0) for entry in rows]


def charged(session: Session) -> int:
    """Pages charged in the whole database."""
    return session.scalar(select(func.sum(LedgerEntry.pages)).where(LedgerEntry.kind == "posted")) or 0


def assert_books_agree(session: Session) -> None:
    """Entries, reservations and counters say the same of every tenant."""
    by_kind = {
        (reservation_id, kind): int(pages)
        for reservation_id, kind, pages in session.execute(
            select(LedgerEntry.reservation_id, LedgerEntry.kind, func.sum(LedgerEntry.pages)).group_by(
                LedgerEntry.reservation_id, LedgerEntry.kind
            )
        )
    }
    reservations = session.scalars(select(Reservation)).all()
    for held in reservations:
        entered = tuple(by_kind.get((held.id, kind), 0) for kind in ("reserved", "posted", "returned"))
        assert entered == (held.pages, held.posted, held.returned)
        assert (held.closed_at is None) == (held.posted + held.returned < held.pages)
    for usage in session.scalars(select(TenantUsage)):
        own = [held for held in reservations if held.tenant_id == usage.tenant_id]
        today = [held for held in own if held.day == usage.day]
        month = [held for held in own if held.month == usage.month]
        assert usage.pending_pages == sum(held.pages - held.posted - held.returned for held in own)
        assert usage.day_pages == sum(held.pages - held.returned for held in today)
        assert usage.day_posted == sum(held.posted for held in today)
        assert usage.month_pages == sum(held.pages - held.returned for held in month)
        assert usage.month_posted == sum(held.posted for held in month)


def limit_tenant(database: Database, tenant_id: str, **limits: float | None) -> None:
    """Gives the tenant these limits instead of its plan's."""
    with database.transaction() as session:
        for name, value in limits.items():
            session.merge(TenantLimit(tenant_id=tenant_id, name=name, value=value, set_by="test"))
