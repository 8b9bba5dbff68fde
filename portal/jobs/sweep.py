"""Blobs go with their rows; those that a death or a full disk left behind are removed by a sweep now and then."""

from __future__ import annotations

import structlog
from sqlalchemy import select

from models import DocumentRow
from portal.errors import Unavailable
from portal.jobs.claims import marks_in_use
from portal.jobs.context import JobContext

log = structlog.get_logger()

_YOUNG_SECONDS = 3600


def discard_blobs(context: JobContext, tenant_id: str, document_id: str) -> None:
    """Removes a document's blobs, whose rows are gone or never came; what fails now is left to the sweep."""
    try:
        context.storage.delete_document(tenant_id, document_id)
    except Unavailable as error:
        log.warning("blobs stay until the sweep", document=document_id, reason=error.message)


def sweep_blobs(context: JobContext) -> int:
    """Gives the number of documents whose blobs had no row and were removed. Raises Unavailable, OSError."""

    def known(tenant_id: str, document_ids: list[str]) -> set[str]:
        with context.database.reading() as session:
            own = select(DocumentRow.id).where(DocumentRow.tenant_id == tenant_id, DocumentRow.id.in_(document_ids))
            return set(session.scalars(own))

    return context.storage.sweep(known, older_than_seconds=_YOUNG_SECONDS)


def sweep_scratch(context: JobContext) -> int:
    """Gives the number of page images that a process left when it died over them, removed now.

    Those of claims that hold their page stay, whichever process has them. Raises Unavailable, OSError.
    """

    def in_use() -> set[str]:
        with context.database.reading() as session:
            return marks_in_use(session)

    return context.storage.sweep_scratch(in_use)
