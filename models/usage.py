"""How much a tenant uses: its one row of counters, reservations, and the ledger that both are proven by."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now
from models.immutable import keep_immutable


class TenantUsage(Base):
    """A tenant's counters, changed only by single conditional UPDATEs (portal/usage/admission.py).

    `day` (2026-11-30) and `month` (2026-11) name the periods, in the tenant's time zone, that their counters are of.
    `…_pages` is what was reserved in the period and not returned, posted or still pending; `…_posted` the posted part.
    `pending_pages` is what is in flight, whatever the period. `window` is a minute since 1970; its requests and those
    of the minute before make the sliding rate.
    """

    __tablename__ = "tenant_usage"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    day: Mapped[str] = mapped_column(String(10), default="")
    day_pages: Mapped[int] = mapped_column(default=0)
    day_posted: Mapped[int] = mapped_column(default=0)
    uncharged_day: Mapped[str] = mapped_column(String(10), default="")
    uncharged_pages: Mapped[int] = mapped_column(default=0)
    month: Mapped[str] = mapped_column(String(7), default="")
    month_pages: Mapped[int] = mapped_column(default=0)
    month_posted: Mapped[int] = mapped_column(default=0)
    pending_pages: Mapped[int] = mapped_column(default=0)
    window: Mapped[int] = mapped_column(default=0)
    window_requests: Mapped[int] = mapped_column(default=0)
    previous_requests: Mapped[int] = mapped_column(default=0)


class Reservation(Base):
    """Pages set aside for one job, retry or request, in the periods they were asked for in.

    It is pending while `posted + returned < pages`; `closed_at` is when that ended. `job_id` is plain text: the
    reservation stays when its job is deleted. `holder` names the process that works on a request
    (portal/jobs/presence.py).
    """

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint("posted >= 0 and returned >= 0 and posted + returned <= pages", name="balance"),
        Index("ix_reservations_tenant_id_created_at", "tenant_id", "created_at"),
        Index("ix_reservations_tenant_id_job_id", "tenant_id", "job_id"),
        Index(
            "ix_reservations_pending",
            "created_at",
            sqlite_where=text("closed_at IS NULL"),
            postgresql_where=text("closed_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("res"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    member_id: Mapped[str | None] = mapped_column(String(40))
    api_key_id: Mapped[str | None] = mapped_column(String(40))
    job_id: Mapped[str | None] = mapped_column(String(40))
    task: Mapped[str] = mapped_column(String(20))
    engine: Mapped[str] = mapped_column(String(100))
    reason: Mapped[str] = mapped_column(String(20))
    day: Mapped[str] = mapped_column(String(10))
    month: Mapped[str] = mapped_column(String(7))
    pages: Mapped[int]
    posted: Mapped[int] = mapped_column(default=0)
    returned: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    closed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    holder: Mapped[str | None] = mapped_column(String(20))


class LedgerEntry(Base):
    """What happened to pages of a reservation: reserved, posted (charged) or returned, and why. Never changed.

    A page ends at most once within a reservation, so it is posted once, also after a crash. All ids are plain text:
    entries outlive jobs, keys, members and the tenant. `day` and `month` are the reservation's.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        CheckConstraint("kind in ('reserved', 'posted', 'returned')", name="kind"),
        CheckConstraint("pages >= 0", name="pages"),
        UniqueConstraint("reservation_id", "page_id"),
        Index(
            "uq_ledger_entries_posted_page",
            "page_id",
            unique=True,
            sqlite_where=text("kind = 'posted'"),
            postgresql_where=text("kind = 'posted'"),
        ),
        Index("ix_ledger_entries_tenant_id_created_at", "tenant_id", "created_at"),
        Index("ix_ledger_entries_tenant_id_job_id", "tenant_id", "job_id"),
        Index("ix_ledger_entries_tenant_id_day", "tenant_id", "day"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("led"))
    tenant_id: Mapped[str] = mapped_column(String(40))
    member_id: Mapped[str | None] = mapped_column(String(40))
    api_key_id: Mapped[str | None] = mapped_column(String(40))
    reservation_id: Mapped[str] = mapped_column(String(40))
    job_id: Mapped[str | None] = mapped_column(String(40))
    page_id: Mapped[str | None] = mapped_column(String(40))
    task: Mapped[str] = mapped_column(String(20))
    engine: Mapped[str] = mapped_column(String(100))
    kind: Mapped[str] = mapped_column(String(10))
    reason: Mapped[str] = mapped_column(String(30))
    pages: Mapped[int]
    day: Mapped[str] = mapped_column(String(10))
    month: Mapped[str] = mapped_column(String(7))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)


keep_immutable(LedgerEntry)


class UsageNotice(Base):
    """Of the tenant somebody closed the notice that 50, 80 or 100 % of a limit are used in a period, at `seen_at`.

    `allowed` is what the limit was then, the highest where it was closed again. Rows without `seen_at` are of a former
    release, which stored what was told; without `allowed` of one that did not store it.
    """

    __tablename__ = "usage_notices"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    limit_name: Mapped[str] = mapped_column(String(40), primary_key=True)
    period: Mapped[str] = mapped_column(String(10), primary_key=True)
    percent: Mapped[int] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now, index=True)
    seen_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    allowed: Mapped[int | None]


class RefusalCount(Base):
    """How often a tenant was refused on a day, by code and binding limit, and the pages that it asked for.

    `allowed` is what the limit was at the last of them; None in rows of a release that did not store it.
    """

    __tablename__ = "refusal_counts"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    day: Mapped[str] = mapped_column(String(10), primary_key=True)
    code: Mapped[str] = mapped_column(String(60), primary_key=True)
    limit_name: Mapped[str] = mapped_column(String(40), primary_key=True)
    requests: Mapped[int] = mapped_column(default=0)
    pages: Mapped[int] = mapped_column(default=0)
    last_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    allowed: Mapped[int | None]
