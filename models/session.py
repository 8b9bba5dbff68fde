"""Sign-in sessions and the throttle of failed sign-ins."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, UTCDateTime, now


class SignInSession(Base):
    """A signed-in browser. Only the SHA-256 of its token is stored; deleting the row signs it out."""

    __tablename__ = "sign_in_sessions"

    token_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    member_id: Mapped[str] = mapped_column(ForeignKey("members.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    last_seen_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    address: Mapped[str | None] = mapped_column(String(64))
    user_agent: Mapped[str | None] = mapped_column(String(200))


class SignInFailures(Base):
    """Failed sign-ins of one account or address within a window; `subject` is a hash, never the e-mail."""

    __tablename__ = "sign_in_failures"

    subject: Mapped[str] = mapped_column(String(64), primary_key=True)
    failures: Mapped[int] = mapped_column(default=0)
    window_ends_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
