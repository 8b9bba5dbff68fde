"""The bound on waiting work: past PORTAL_MAX_BACKLOG_PAGES nothing more is taken, whoever asks."""

from __future__ import annotations

from sqlalchemy.orm import Session

from portal.engine.base import Engine
from portal.errors import Busy, InvalidRequest
from portal.jobs import pace
from portal.jobs.context import JobContext


def refuse_backlog(session: Session, context: JobContext, engine: Engine, *, pages: int) -> None:
    """Raises Busy when so many pages more do not fit now, InvalidRequest when they never would."""
    limit = context.settings.engine.max_backlog_pages
    excess = pace.queued_pages(session) + pages - limit
    if excess <= 0:
        return
    if pages > limit:
        raise InvalidRequest(
            f"{pages} pages are more than the portal takes at once ({limit}).",
            code="too_many_pages",
            remedy="Split the document, or choose fewer pages.",
        )
    drain_seconds = pace.measure(session, engine.capability.name, engine.slots).drain_seconds
    raise Busy(
        "The portal has as much waiting work as it may hold.",
        retry_after_seconds=pace.retry_after_seconds(excess, drain_seconds),
    )
