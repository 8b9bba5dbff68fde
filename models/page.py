"""Pages: the schedulable and billed unit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id


class Page(Base):
    """One page of one job. `position` counts from 1 over the job, `number` from 1 within its document.

    `result` is the PageText as JSON once the page succeeded, `lines_to_check` the number of its lines that a person
    should compare with the page (NULL where the engine gives no scores). `fields` are the values of the task fields,
    apart from the result, since people correct them and lists of many documents show them alone; once somebody has,
    `result` keeps those that were read, under `fields`. `claimed_by` names
    the process that works on it. `attempt` counts on over retries; `attempts_before_retry` is where it stood at the
    last one.
    `rerun_key` hashes the page's bytes with all that decides how it reads: within a tenant, equal keys read alike.
    `reused_page_id` is the page whose reading was taken over instead of being read again.
    `wait_until` is when a queued page that was postponed may be claimed again.
    """

    __tablename__ = "pages"
    __table_args__ = (
        CheckConstraint("state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="state"),
        UniqueConstraint("job_id", "position"),
        Index("ix_pages_state_tenant_id", "state", "tenant_id"),
        Index("ix_pages_state_finished_at", "state", "finished_at"),
        Index("ix_pages_tenant_id_rerun_key", "tenant_id", "rerun_key"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("pag"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.id"), index=True)
    position: Mapped[int]
    number: Mapped[int]
    state: Mapped[str] = mapped_column(String(12), default="queued")
    attempt: Mapped[int] = mapped_column(default=0)
    claimed_by: Mapped[str | None] = mapped_column(String(80))
    is_blank: Mapped[bool] = mapped_column(default=False)
    confidence: Mapped[float | None]
    lines_to_check: Mapped[int | None]
    error_code: Mapped[str | None] = mapped_column(String(60))
    error_message: Mapped[str | None] = mapped_column(String(500))
    error_remedy: Mapped[str | None] = mapped_column(String(500))
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True), deferred=True)
    fields: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True), deferred=True)
    started_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    attempts_before_retry: Mapped[int] = mapped_column(default=0, server_default="0")
    reservation_id: Mapped[str | None] = mapped_column(String(40))
    rerun_key: Mapped[str | None] = mapped_column(String(64))
    reused_page_id: Mapped[str | None] = mapped_column(ID)
    wait_until: Mapped[datetime | None] = mapped_column(UTCDateTime)
