"""The audit log: append-only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class AuditEntry(Base):
    """Who did what to whom, from where, when. Ids are kept as text so that entries outlive what they name."""

    __tablename__ = "audit_entries"

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("aud"))
    at: Mapped[datetime] = mapped_column(UTCDateTime, default=now, index=True)
    tenant_id: Mapped[str | None] = mapped_column(String(40), index=True)
    actor: Mapped[str] = mapped_column(String(254))
    action: Mapped[str] = mapped_column(String(60))
    target: Mapped[str | None] = mapped_column(String(254))
    address: Mapped[str | None] = mapped_column(String(64))
    details: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
