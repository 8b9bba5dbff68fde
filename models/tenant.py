"""Tenants: who pays and is isolated."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Tenant(Base):
    """One isolated customer; its name is unique."""

    __tablename__ = "tenants"

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("ten"))
    name: Mapped[str] = mapped_column(String(100), unique=True)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
