"""Blobs without a row, left by a process that died between storing and committing, are removed at the start."""

from __future__ import annotations

from sqlalchemy import select

from models import DocumentRow
from portal.jobs.context import JobContext

_YOUNG_SECONDS = 3600


def sweep_blobs(context: JobContext) -> int:
    """Gives the number of documents whose blobs were removed. Raises Unavailable."""

    def is_known(tenant_id: str, document_id: str) -> bool:
        with context.database.reading() as session:
            found = select(DocumentRow.id).where(DocumentRow.tenant_id == tenant_id, DocumentRow.id == document_id)
            return session.scalar(found) is not None

    return context.storage.sweep(is_known, older_than_seconds=_YOUNG_SECONDS)
