"""Pages are let in here: past the bound on waiting work (PORTAL_MAX_BACKLOG_PAGES), then past the tenant's limits.

A tenant of whom nothing waits has a reserve beyond the end of the backlog. What one tenant may have in flight is its
plan's affair (portal/usage).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def admitted_pages(
    session: Session, context: JobContext, principal: Principal, engine: Engine, ask: Ask
) -> Iterator[Held]:
    """Sets the pages aside for the block, which queues them, in the caller's transaction; only its commit may follow.

    Whether the backlog holds them is looked at when the block ends, and the lock that lets one process through after
    the other is held for that and the commit alone.

    Raises Busy and LimitReached, Forbidden (tenant_suspended), and where so many pages would never be let in
    InvalidRequest or TooManyPages.
    """
    _refuse_too_many(context, ask.pages)
    try:
        held = reserve(session, principal, ask)
    except LimitReached as error:
        raise _with_pace(session, error, engine, ask.pages) from error
    yield held
    if ask.pages:
        session.flush()
        lock_across_processes(session, _BACKLOG_KEY)
        queued, own = pace.queued_pages(session, principal.tenant_id)
        _refuse_excess(session, context, engine, queued=queued, is_newcomer=own <= ask.pages)


def refuse_early(
    session: Session,
    context: JobContext,
    principal: Principal,
    engine: Engine,
    *,
    pages: int,
    is_least: bool = False,
) -> Terms:
    """Raises what `admitted_pages` would raise for so many pages now; sets nothing aside. Gives the terms.

    `is_least` says that there may be more pages, which nobody has counted yet.
    """
    standing = standing_of(session, principal.tenant_id)
    refuse_suspended(standing.terms)
    _refuse_too_many(context, pages)
    if pages:
        queued, own = pace.queued_pages(session, principal.tenant_id)
        _refuse_excess(session, context, engine, queued=queued + pages, is_newcomer=not own)
    refused = refusal(standing.counters, standing.terms.limits, standing.period, pages=pages, is_least=is_least)
    if refused is not None:
        raise _with_pace(session, refused, engine, pages)
    return standing.terms


def _refuse_too_many(context: JobContext, pages: int) -> None:
    limit = context.settings.engine.max_backlog_pages
    if pages > limit:
        raise InvalidRequest(
            f"{pages} pages are more than the portal takes at once ({limit}).",
            code="too_many_pages",
            remedy="Split the document, or choose fewer pages.",
        )


def _refuse_excess(session: Session, context: JobContext, engine: Engine, *, queued: int, is_newcomer: bool) -> None:
    limit = context.settings.engine.max_backlog_pages
    excess = queued - limit - (max(1, limit // _RESERVE_SHARE) if is_newcomer else 0)
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
