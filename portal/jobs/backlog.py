"""The bound on waiting work (PORTAL_MAX_BACKLOG_PAGES), whoever asks and however.

One tenant may fill half of the backlog; one of whom nothing waits has a reserve beyond its end.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from portal.db import lock_across_processes
from portal.engine.base import Engine
from portal.errors import Busy, InvalidRequest, TooManyInFlight
from portal.jobs import pace
from portal.jobs.context import JobContext

_RESERVE_SHARE = 10
_BACKLOG_KEY = 0x0C2BAC10  # any fixed number other than the schema's and the dispatcher's


def lock_backlog(session: Session) -> None:
    """Lets one transaction at a time look at the backlog and add to it; call it before any row is locked."""
    lock_across_processes(session, _BACKLOG_KEY)


def refuse_backlog(session: Session, tenant_id: str, context: JobContext, engine: Engine, *, pages: int) -> None:
    """Raises TooManyInFlight or Busy when so many pages more do not fit now, InvalidRequest when they never would."""
    limit = context.settings.engine.max_backlog_pages
    own_limit = max(1, limit // 2)
    if pages > own_limit:
        raise InvalidRequest(
            f"{pages} pages are more than the portal takes at once ({own_limit}).",
            code="too_many_pages",
            remedy="Split the document, or choose fewer pages.",
        )
    own = pace.queued_pages(session, tenant_id)
    reserve = 0 if own else max(1, limit // _RESERVE_SHARE)
    own_excess, excess = own + pages - own_limit, pace.queued_pages(session) + pages - limit - reserve
    if max(own_excess, excess) <= 0:
        return
    drain_seconds = pace.measure(session, engine.capability.name, engine.slots).drain_seconds
    retry_after = pace.retry_after_seconds(max(own_excess, excess), drain_seconds)
    if own_excess > 0:
        raise TooManyInFlight(f"{own} of your pages are waiting, and {own_limit} may.", retry_after_seconds=retry_after)
    raise Busy("The portal has as much waiting work as it may hold.", retry_after_seconds=retry_after)
