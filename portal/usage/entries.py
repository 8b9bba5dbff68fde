"""One usage entry for each page that ended, in the transaction that stores its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import UsageEntry

Outcome = Literal["read", "blank", "failed", "truncated"]


@dataclass(frozen=True)
class EndedPage:
    """What is counted: whose page it was, through which key or member, and on which engine.

    `is_free` says that the page costs nothing however it ends: it is a sample of ours.
    """

    tenant_id: str
    member_id: str | None
    api_key_id: str | None
    job_id: str
    page_id: str
    task: str
    engine: str
    is_free: bool = False


def record_page(session: Session, page: EndedPage, outcome: Outcome) -> None:
    """Adds the entry. Only a page that was read counts as one; blank, failed, cut and free pages count zero.

    `page_id` is unique, so recording a page twice fails the whole transaction instead of counting it twice.
    """
    session.add(
        UsageEntry(
            tenant_id=page.tenant_id,
            member_id=page.member_id,
            api_key_id=page.api_key_id,
            job_id=page.job_id,
            page_id=page.page_id,
            task=page.task,
            engine=page.engine,
            outcome=outcome,
            pages=1 if outcome == "read" and not page.is_free else 0,
        )
    )


def pages_used(session: Session, tenant_id: str, *, since: datetime) -> int:
    """Number of charged pages of the tenant since a moment."""
    used = session.scalar(
        select(func.coalesce(func.sum(UsageEntry.pages), 0)).where(
            UsageEntry.tenant_id == tenant_id, UsageEntry.created_at >= since
        )
    )
    return int(used or 0)
