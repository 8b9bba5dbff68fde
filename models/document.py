"""Documents: validated uploads in a tenant's storage."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


class DocumentRow(Base):
    """An upload that passed intake. Its bytes lie in the tenant's storage under its id."""

    __tablename__ = "documents"

    id: Mapped[str] = mapped_column(ID, primary_key=True, default=lambda: new_id("doc"))
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    member_id: Mapped[str | None] = mapped_column(ForeignKey("members.id"))
    file_name: Mapped[str] = mapped_column(String(255))
    media_type: Mapped[str] = mapped_column(String(60))
    byte_size: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    page_count: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
