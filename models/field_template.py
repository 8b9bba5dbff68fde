"""Templates of fields that tenants wrote themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class FieldTemplate(Base):
    """One version of a template; its `rows`, field specs as JSON, never change.

    `deleted_at` takes all versions of a name out of sight; a new one of that name counts on, so that the name and
    version that a job records always mean the same. Jobs keep a copy of the specs themselves.
    """

    __tablename__ = "field_templates"
    __table_args__ = (UniqueConstraint("tenant_id", "name", "version"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("tpl"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str] = mapped_column(String(60))
    version: Mapped[int]
    rows: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    member_id: Mapped[str | None] = mapped_column(ForeignKey("members.id"))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    deleted_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
