"""What an admin chose on the admin page and no environment variable fixes: the registration mode."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, UTCDateTime, now


class PortalOption(Base):
    """One named choice for the whole portal."""

    __tablename__ = "portal_options"

    name: Mapped[str] = mapped_column(String(60), primary_key=True)
    value: Mapped[str] = mapped_column(String(254))
    set_by: Mapped[str] = mapped_column(String(254))
    set_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
