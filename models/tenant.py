"""Tenants: who pays and is isolated."""

from __future__ import annotations

import unicodedata
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, String
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.orm import Mapped, mapped_column

from models.base import ID, Base, UTCDateTime, new_id, now


def folded_name(name: str) -> str:
    """The form in which names of tenants are compared: neither case nor width nor spacing makes two of one."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


def _from_name(context: DefaultExecutionContext) -> str:
    parameters: dict[str, str] = context.get_current_parameters()  # type: ignore[no-untyped-call]
    return folded_name(parameters["name"])


class Tenant(Base):
    """One isolated customer; its name is unique, also when it is folded.

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
    name_folded: Mapped[str] = mapped_column(String(400), unique=True, default=_from_name)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, default=now)
