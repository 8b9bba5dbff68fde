"""Plans, and what one tenant has instead of its plan's limits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, String, false, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Plan(Base):
    """Named limits, each named as in `portal.domain.Limit`; NULL is no limit. At most one plan is the default."""

    __tablename__ = "plans"
    __table_args__ = (
        CheckConstraint("weight > 0", name="weight"),
        Index(
            "uq_plans_is_default",
            "is_default",
            unique=True,
            sqlite_where=text("is_default"),
            postgresql_where=text("is_default"),
        ),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("pla"))
    name: Mapped[str] = mapped_column(String(60), unique=True)
    is_default: Mapped[bool] = mapped_column(default=False, server_default=false())
    pages_per_day: Mapped[int | None]
    pages_per_month: Mapped[int | None]
    requests_per_minute: Mapped[int | None]
    pages_in_flight: Mapped[int | None]
    uncharged_pages_per_day: Mapped[int | None]
    max_file_bytes: Mapped[int | None] = mapped_column(BigInteger)
    max_document_pages: Mapped[int | None]
    retention_days: Mapped[int | None]
    weight: Mapped[float] = mapped_column(default=1.0)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)


class TenantLimit(Base):
    """One limit that a tenant has instead of its plan's; `value` NULL is no limit, `until` the end of a raise."""

    __tablename__ = "tenant_limits"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[float | None]
    until: Mapped[datetime | None] = mapped_column(UTCDateTime)
    reason: Mapped[str | None] = mapped_column(String(300))
    set_by: Mapped[str] = mapped_column(String(254))
    set_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)


class LimitChange(Base):
    """One edit of a tenant's limits, plan or time zone: what stood before and after, so that it can be undone.

    `before` and `after` are JSON as `portal/usage/limit_edits.py` writes them.
    """

    __tablename__ = "limit_changes"
    __table_args__ = (Index("ix_limit_changes_tenant_id_changed_at", "tenant_id", "changed_at"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("chg"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    before: Mapped[dict[str, Any]] = mapped_column(JSON)
    after: Mapped[dict[str, Any]] = mapped_column(JSON)
    reason: Mapped[str | None] = mapped_column(String(300))
    changed_by: Mapped[str] = mapped_column(String(254))
    changed_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    undone_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class QuotaRequest(Base):
    """A tenant asks for more; an admin grants or declines it, with words."""

    __tablename__ = "quota_requests"
    __table_args__ = (
        CheckConstraint("state in ('open', 'granted', 'declined')", name="state"),
        Index("ix_quota_requests_state_created_at", "state", "created_at"),
        Index("ix_quota_requests_tenant_id", "tenant_id"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("ask"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    member_id: Mapped[str | None] = mapped_column(ForeignKey("members.id"))
    limit_name: Mapped[str] = mapped_column(String(40))
    wanted: Mapped[float | None]
    reason: Mapped[str] = mapped_column(String(1000))
    state: Mapped[str] = mapped_column(String(10), default="open")
    answer: Mapped[str | None] = mapped_column(String(1000))
    decided_by: Mapped[str | None] = mapped_column(String(254))
    decided_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
