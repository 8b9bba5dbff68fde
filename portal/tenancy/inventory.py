"""What a tenant has stored: what an admin is shown before it is deleted, and what its deletion record keeps."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import ApiKey, DocumentRow, Job, Member, Page
from portal.domain import PageState
from portal.wording import counted

_UNFINISHED = (PageState.QUEUED, PageState.RUNNING)


@dataclass(frozen=True)
class Inventory:
    """Counts, and the bytes of the uploads; `unfinished_pages` wait or are being read now."""

    members: int
    api_keys: int
    jobs: int
    pages: int
    unfinished_pages: int
    documents: int
    document_bytes: int

    @property
    def _unfinished(self) -> str:
        return f" ({self.unfinished_pages:,} of them not read yet)" if self.unfinished_pages else ""

    @property
    def words(self) -> str:
        """What goes, in one line."""
        return (
            f"{counted(self.members, 'member')}, {counted(self.api_keys, 'API key')}, {counted(self.jobs, 'job')} with "
            f"{counted(self.pages, 'page')}{self._unfinished}, "
            f"{counted(self.documents, 'document')} "
            f"({self.document_bytes / 2**20:.1f} MB)"
        )


def inventory_of(session: Session, tenant_id: str) -> Inventory:
    """What the tenant has now; all noughts for one that is gone."""
    pages, unfinished = session.execute(
        select(func.count(), func.count().filter(Page.state.in_(_UNFINISHED))).where(Page.tenant_id == tenant_id)
    ).one()
    documents, document_bytes = session.execute(
        select(func.count(), func.coalesce(func.sum(DocumentRow.byte_size), 0)).where(
            DocumentRow.tenant_id == tenant_id
        )
    ).one()
    members = session.scalar(select(func.count()).where(Member.tenant_id == tenant_id, Member.removed_at.is_(None)))
    keys = session.scalar(select(func.count()).where(ApiKey.tenant_id == tenant_id))
    jobs = session.scalar(select(func.count()).where(Job.tenant_id == tenant_id))
    return Inventory(members or 0, keys or 0, jobs or 0, pages, unfinished, documents, int(document_bytes))
