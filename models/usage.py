"""Usage entries: one row for each finished page; what the ledger is built on."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class UsageEntry(Base):
    """A page that ended. `page_id` is unique, so a page is counted once, also after a crash.

    A failed page that is retried has no entry until it ends again. `page_id` and `job_id` are plain text: the entry
    stays when the job is deleted.
    """

    __tablename__ = "usage_entries"
    __table_args__ = (
        CheckConstraint("outcome in ('read', 'blank', 'failed', 'truncated')", name="outcome"),
        Index("ix_usage_entries_tenant_id_created_at", "tenant_id", "created_at"),
        Index("ix_usage_entries_tenant_id_job_id", "tenant_id", "job_id"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("use"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    member_id: Mapped[str | None] = mapped_column(String(40))
    api_key_id: Mapped[str | None] = mapped_column(String(40))
    job_id: Mapped[str] = mapped_column(String(40))
    page_id: Mapped[str] = mapped_column(String(40), unique=True)
    task: Mapped[str] = mapped_column(String(20))
    engine: Mapped[str] = mapped_column(String(100))
    outcome: Mapped[str] = mapped_column(String(12))
    pages: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
