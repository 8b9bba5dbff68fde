"""Members: the people of a tenant."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Member(Base):
    """A person who signs in. The e-mail is stored lower-case and is unique over all tenants."""

    __tablename__ = "members"
    __table_args__ = (CheckConstraint("role in ('owner', 'member')", name="role"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("mem"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    email: Mapped[str] = mapped_column(String(254), unique=True)
    password_hash: Mapped[str] = mapped_column(String(255))
    role: Mapped[str] = mapped_column(String(10))
    is_admin: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    password_changed_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
