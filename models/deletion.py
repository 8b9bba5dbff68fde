"""Deletion records: that something was deleted, what went with it, and who asked; nothing of its content."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now
from models.immutable import keep_immutable


class DeletionRecord(Base):
    """`gone` counts what went, by kind (pages, blobs, images, results …). Ids are plain text and outlive their rows."""

    __tablename__ = "deletion_records"
    __table_args__ = (
        CheckConstraint("kind in ('job', 'document', 'tenant')", name="kind"),
        CheckConstraint("reason in ('asked', 'retention', 'admin')", name="reason"),
        Index("ix_deletion_records_tenant_id_at", "tenant_id", "at"),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("del"))
    tenant_id: Mapped[str] = mapped_column(String(40))
    kind: Mapped[str] = mapped_column(String(10))
    target: Mapped[str] = mapped_column(String(40))
    reason: Mapped[str] = mapped_column(String(10))
    actor: Mapped[str] = mapped_column(String(254))
    gone: Mapped[dict[str, Any]] = mapped_column(JSON)
    at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)


keep_immutable(DeletionRecord)
