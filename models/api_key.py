"""API keys: the public prefix is stored in clear, the key itself only as an HMAC."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class ApiKey(Base):
    """A tenant's key. `pepper_id` names the server secret that hashed it; `scopes` is comma-separated.

    `replaced_by` is the id of the key that a rotation made in its place; both work until this one ends.
    """

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("key"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    member_id: Mapped[str | None] = mapped_column(ForeignKey("members.id"))
    name: Mapped[str] = mapped_column(String(100))
    prefix: Mapped[str] = mapped_column(String(20), unique=True)
    key_hash: Mapped[str] = mapped_column(String(64))
    pepper_id: Mapped[str] = mapped_column(String(16))
    scopes: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_used_address: Mapped[str | None] = mapped_column(String(64))
    revoked_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    replaced_by: Mapped[str | None] = mapped_column(ID)
