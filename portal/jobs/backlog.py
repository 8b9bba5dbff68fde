"""Pages are let in here: past the bound on waiting work (PORTAL_MAX_BACKLOG_PAGES), then past the tenant's limits.

A tenant of whom nothing waits has a reserve beyond the end of the backlog. What one tenant may have in flight is its
plan's affair (portal/usage).
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from portal.db import lock_across_processes
from portal.domain import Principal
from portal.engine.base import Engine
from portal.errors import Busy, InvalidRequest, LimitReached
from portal.jobs import pace
from portal.jobs.context import JobContext
from portal.usage.admission import Ask, Held, reserve
from portal.usage.bindings import refusal
from portal.usage.limits import Terms, refuse_suspended
from portal.usage.standing import standing_of

_RESERVE_SHARE = 10
_BACKLOG_KEY = 0x0C2BAC10  # any fixed number other than the schema's and the dispatcher's


def admit_pages(session: Session, context: JobContext, principal: Principal, engine: Engine, ask: Ask) -> Held:
    """Sets the pages aside, in the caller's transaction and before it locks any row.

    Raises Busy and LimitReached, Forbidden (tenant_suspended), and where so many pages would never be let in
    InvalidRequest or TooManyPages.
    """
    lock_across_processes(session, _BACKLOG_KEY)
    _refuse_backlog(session, principal.tenant_id, context, engine, pages=ask.pages)
    try:
        return reserve(session, principal, ask)
    except LimitReached as error:
        raise _with_pace(session, error, engine, ask.pages) from error


def refuse_early(
    session: Session,
    context: JobContext,
    principal: Principal,
    engine: Engine,
    *,
    pages: int,
    is_least: bool = False,
) -> Terms:
    """Raises what `admit_pages` would raise for so many pages now; sets nothing aside. Gives the terms.

    `is_least` says that there may be more pages, which nobody has counted yet.
    """
    standing = standing_of(session, principal.tenant_id)
    refuse_suspended(standing.terms)
    _refuse_backlog(session, principal.tenant_id, context, engine, pages=pages)
    refused = refusal(standing.counters, standing.terms.limits, standing.period, pages=pages, is_least=is_least)
    if refused is not None:
        raise _with_pace(session, refused, engine, pages)
    return standing.terms


def _refuse_backlog(session: Session, tenant_id: str, context: JobContext, engine: Engine, *, pages: int) -> None:
    limit = context.settings.engine.max_backlog_pages
    if pages > limit:
        raise InvalidRequest(
            f"{pages} pages are more than the portal takes at once ({limit}).",
            code="too_many_pages",
            remedy="Split the document, or choose fewer pages.",
        )
    if not pages:
        return
    queued, own = pace.queued_pages(session, tenant_id)
    excess = queued + pages - limit - (0 if own else max(1, limit // _RESERVE_SHARE))
    if excess > 0:
        drain_seconds = pace.measure(session, engine.capability.name, engine.slots).drain_seconds
        raise Busy(
            "With these pages the portal would have more waiting work than it may hold.",
            retry_after_seconds=pace.retry_after_seconds(excess, drain_seconds),
        )


def _with_pace(session: Session, error: LimitReached, engine: Engine, pages: int) -> LimitReached:
    """What is in flight ends at the engine's pace: Retry-After is computed from it."""
    if error.code == "too_many_in_flight":
        drain_seconds = pace.measure(session, engine.capability.name, engine.slots).drain_seconds
        error.retry_after_seconds = pace.retry_after_seconds(error.used + pages - error.allowed, drain_seconds)
    return error
