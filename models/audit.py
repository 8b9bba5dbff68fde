"""The audit log: append-only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now
from models.immutable import keep_immutable


class AuditEntry(Base):
    """Who did what to whom, from where, when. Ids are kept as text so that entries outlive what they name.

    `before` and `after` are what a change found and left, where it changed values; `result` is ok or refused.
    """

    __tablename__ = "audit_entries"
    __table_args__ = (Index("ix_audit_entries_action_at", "action", "at"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("aud"))
    at: Mapped[datetime] = mapped_column(UTCDateTime, default=now, index=True)
    tenant_id: Mapped[str | None] = mapped_column(String(40), index=True)
    actor: Mapped[str] = mapped_column(String(254))
    action: Mapped[str] = mapped_column(String(60))
    target: Mapped[str | None] = mapped_column(String(254))
    address: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    result: Mapped[str] = mapped_column(String(10), default="ok", server_default="ok")
    request_id: Mapped[str | None] = mapped_column(String(64))
    before: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    after: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


keep_immutable(AuditEntry)
