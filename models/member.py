"""Members: the people of a tenant."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class Member(Base):
    """A person who signs in. The e-mail is stored lower-case and is unique over all tenants.

    `last_seen_at` is the last use of a signed-in browser, noted every few minutes. A removed member's row stays, since
    jobs and keys name it; `removed_at` frees its e-mail for another account.
    """

    __tablename__ = "members"
    __table_args__ = (
        CheckConstraint("role in ('owner', 'member')", name="role"),
        Index(
            "uq_members_present_email",
            "email",
            unique=True,
            sqlite_where=text("removed_at IS NULL"),
            postgresql_where=text("removed_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("mem"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    email: Mapped[str] = mapped_column(String(254))
    password_hash: Mapped[str] = mapped_column(String(255))
    role: Mapped[str] = mapped_column(String(10))
    is_admin: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    password_changed_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
    last_seen_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    removed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
