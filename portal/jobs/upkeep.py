"""Done now and then by the process that dispatches: files and reservations that are nobody's go, and what expired."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from portal.errors import Unavailable
from portal.jobs.context import JobContext
from portal.jobs.presence import forget_gone
from portal.jobs.retention import delete_expired
from portal.jobs.stray_reservations import sweep_reservations
from portal.jobs.sweep import sweep_blobs, sweep_scratch

log = structlog.get_logger()


def keep_up(context: JobContext) -> None:
    """Sweeps once; a part that fails is logged, tried again at the next time, and keeps no other part from its work."""
    _do("blobs", lambda: _sweep_blobs(context))
    _do("page images", lambda: _sweep_scratch(context))
    give_back(context)
    _do("signs of life", lambda: forget_gone(context.database))
    _do("retention", lambda: _delete_expired(context))


def give_back(context: JobContext) -> None:
    """Gives back what is reserved for nobody; done more often than the rest, for it binds a tenant meanwhile."""
    _do("reservations", lambda: _sweep_reservations(context))


def _do(part: str, act: Callable[[], None]) -> None:
    try:
        act()
    except (Unavailable, OSError) as error:
        log.warning("did not sweep", part=part, reason=type(error).__name__)


def _sweep_blobs(context: JobContext) -> None:
    log.info("swept", documents=sweep_blobs(context))


def _sweep_scratch(context: JobContext) -> None:
    swept = sweep_scratch(context)
    if swept:
        log.warning("removed page images that nobody reads any more", files=swept)


def _sweep_reservations(context: JobContext) -> None:
    swept = sweep_reservations(context.database)
    if swept.pages:
        log.warning("gave back pages that were reserved for nobody", reservations=swept.reservations, pages=swept.pages)


def _delete_expired(context: JobContext) -> None:
    deleted = delete_expired(context)
    if deleted:
        log.info("deleted what was kept as long as its plan says", jobs=deleted)
