"""Tenants: who pays and is isolated."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Tenant(Base):
    """One isolated customer; its name is unique.

    `plan_id` NULL is the default plan. `state`: active, no_new_jobs (what is there can be read and exported), or
    suspended (nobody signs in, no key works); `state_reason` is shown to the tenant. `time_zone` is an IANA name: its
    days and months begin there.
    """

    __tablename__ = "tenants"
    __table_args__ = (CheckConstraint("state in ('active', 'no_new_jobs', 'suspended')", name="state"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("ten"))
    name: Mapped[str] = mapped_column(String(100), unique=True)
    plan_id: Mapped[str | None] = mapped_column(ForeignKey("plans.id"))
    time_zone: Mapped[str] = mapped_column(String(64), default="UTC", server_default="UTC")
    state: Mapped[str] = mapped_column(String(12), default="active", server_default="active")
    state_reason: Mapped[str | None] = mapped_column(String(300))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
