"""Jobs: one submission of one or many documents under one task prompt."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, false
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Job(Base):
    """A submission. Its state is final once no page of it is queued or running.

    `looked_at` is when somebody of the tenant first saw that it had failed, wholly or in part; a retry clears it.
    `is_fresh` says that its pages are to be read even where an identical one was read before.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint("state in ('queued', 'running', 'succeeded', 'partial', 'failed', 'cancelled')", name="state"),
        Index("ix_jobs_tenant_id_created_at", "tenant_id", "created_at"),
        Index("ix_jobs_state", "state"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("job"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    member_id: Mapped[str | None] = mapped_column(ForeignKey("members.id"))
    api_key_id: Mapped[str | None] = mapped_column(ForeignKey("api_keys.id"))
    task: Mapped[str] = mapped_column(String(20))
    prompt: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    engine: Mapped[str] = mapped_column(String(100))
    engine_profile: Mapped[str] = mapped_column(String(100))
    state: Mapped[str] = mapped_column(String(12), default="queued")
    page_count: Mapped[int]
    is_sample: Mapped[bool] = mapped_column(default=False, server_default=false())
    is_fresh: Mapped[bool] = mapped_column(default=False, server_default=false())
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    started_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    looked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
