"""Invitations: a link that makes one account, once."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Invite(Base):
    """`tenant_id` is the tenant that the new member joins; NULL invites somebody to make a tenant of their own.

    Only the SHA-256 of the link's token is stored. It works until it is used, revoked or expired.
    """

    __tablename__ = "invites"
    __table_args__ = (CheckConstraint("role in ('owner', 'member')", name="role"),)

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("inv"))
    tenant_id: Mapped[str | None] = mapped_column(ForeignKey("tenants.id"), index=True)
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(10))
    note: Mapped[str | None] = mapped_column(String(254))
    created_by: Mapped[str] = mapped_column(String(254))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime)
    used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    used_by: Mapped[str | None] = mapped_column(String(254))
    revoked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
