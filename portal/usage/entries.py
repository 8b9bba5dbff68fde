"""One usage entry for each page that ended, in the transaction that stores its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from models import UsageEntry

_IDS_IN_A_STATEMENT = 500

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


def take_back_failures(session: Session, tenant_id: str, page_ids: Sequence[str]) -> None:
    """Removes the entries of failed pages that are to be read again; one that was charged is never removed.

    Call it in the transaction that queues the pages (portal/jobs/retry.py says why).
    """
    for start in range(0, len(page_ids), _IDS_IN_A_STATEMENT):
        some = page_ids[start : start + _IDS_IN_A_STATEMENT]
        session.execute(
            delete(UsageEntry)
            .where(UsageEntry.tenant_id == tenant_id, UsageEntry.page_id.in_(some))
            .where(UsageEntry.outcome == "failed", UsageEntry.pages == 0)
            .execution_options(synchronize_session=False)
        )


def charged_pages(session: Session, tenant_id: str, job_ids: Sequence[str]) -> dict[str, int]:
    """Job → its charged pages; a job without an entry is left out."""
    rows = session.execute(
        select(UsageEntry.job_id, func.sum(UsageEntry.pages))
        .where(UsageEntry.tenant_id == tenant_id, UsageEntry.job_id.in_(job_ids))
        .group_by(UsageEntry.job_id)
    )
    return {job_id: int(pages) for job_id, pages in rows}
