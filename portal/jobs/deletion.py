"""A job goes for good: rows, texts, keys of re-runs and blobs, and a record stays that says so and nothing else of it.

The job is the unit: a single document of a job is not deleted alone, since the job's pages, receipt and exports are of
all its documents together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.orm import Session

from models import DeletionRecord, DocumentRow, Job, Page, SearchText
from portal.domain import PageState
from portal.errors import InvalidRequest, NotFound
from portal.jobs.context import JobContext
from portal.jobs.sweep import discard_blobs

MAX_LISTED = 200
Reason = Literal["asked", "retention", "admin"]


@dataclass(frozen=True)
class Deletion:
    """What was deleted, when, by whom and why; `gone` counts what went, by kind."""

    id: str
    kind: str
    target: str
    reason: str
    actor: str
    gone: dict[str, Any]
    at: datetime


def delete_rows(session: Session, context: JobContext, job: Job, *, actor: str, reason: Reason) -> list[str]:
    """Removes all rows of the locked, finished job and records it; gives the documents whose blobs have to go.

    The caller removes those with `discard` after the commit: a death in between leaves them to the sweep.
    """
    own = (Page.tenant_id == job.tenant_id, Page.job_id == job.id)
    pages = session.execute(select(Page.document_id, Page.number, Page.state).where(*own)).all()
    used = {page.document_id for page in pages}
    texts = session.execute(
        delete(SearchText).where(SearchText.tenant_id == job.tenant_id, SearchText.job_id == job.id)
    )
    session.execute(delete(Page).where(*own))
    session.execute(delete(Job).where(Job.tenant_id == job.tenant_id, Job.id == job.id))
    documents = _unused(session, job.tenant_id, used)
    views = (context.storage.page_view_path(job.tenant_id, page.document_id, page.number) for page in pages)
    gone = {
        "pages": len(pages),
        "readings": sum(page.state == PageState.SUCCEEDED for page in pages),
        "images": sum(view.is_file() for view in views),
        "search_texts": texts.rowcount,  # type: ignore[attr-defined]  # of a CursorResult
        "documents": len(documents),
        "bytes": _bytes(session, job.tenant_id, documents),
    }
    session.execute(delete(DocumentRow).where(DocumentRow.tenant_id == job.tenant_id, DocumentRow.id.in_(documents)))
    session.add(
        DeletionRecord(tenant_id=job.tenant_id, kind="job", target=job.id, reason=reason, actor=actor, gone=gone)
    )
    return documents


def discard(context: JobContext, tenant_id: str, documents: Sequence[str]) -> None:
    """Removes the blobs of documents whose rows are gone, and what the database keeps of deleted rows."""
    for document_id in documents:
        discard_blobs(context, tenant_id, document_id)
    context.database.forget_deleted()


def list_deletions(
    context: JobContext, tenant_id: str, *, limit: int = 50, before: str | None = None
) -> list[Deletion]:
    """The tenant's deletions, newest first, at most `limit` (1–200); older than the one with the id `before`.

    Raises InvalidRequest, and NotFound for an unknown `before`.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidRequest(f"limit must be between 1 and {MAX_LISTED}.", remedy="Page on with 'before'.")
    table = DeletionRecord
    found = select(table).where(table.tenant_id == tenant_id)
    with context.database.reading() as session:
        if before is not None:
            last = session.execute(
                select(table.at, table.id).where(table.tenant_id == tenant_id, table.id == before)
            ).one_or_none()
            if last is None:
                raise NotFound("There is no such deletion.", remedy="Send 'next_before' of the last answer.")
            found = found.where(tuple_(table.at, table.id) < (last.at, last.id))
        rows = session.scalars(found.order_by(table.at.desc(), table.id.desc()).limit(limit)).all()
    return [Deletion(row.id, row.kind, row.target, row.reason, row.actor, dict(row.gone), row.at) for row in rows]


def _unused(session: Session, tenant_id: str, used: set[str]) -> list[str]:
    still = select(Page.document_id).where(Page.tenant_id == tenant_id, Page.document_id.in_(used))
    return sorted(used - set(session.scalars(still)))


def _bytes(session: Session, tenant_id: str, documents: Sequence[str]) -> int:
    own = (DocumentRow.tenant_id == tenant_id, DocumentRow.id.in_(documents))
    return int(session.scalar(select(func.sum(DocumentRow.byte_size)).where(*own)) or 0)
