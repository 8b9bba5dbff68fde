"""The history of a tenant: its jobs in three groups, searched and read on from the last one seen."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import ColumnElement, and_, or_, update

from models import Job
from models.base import now
from portal.domain import JobState
from portal.errors import TooSlow
from portal.jobs import search
from portal.jobs.context import JobContext
from portal.jobs.queries import JobView, list_jobs

_UNLUCKY = (JobState.FAILED, JobState.PARTIAL)
_UNFINISHED = (JobState.QUEUED, JobState.RUNNING)
_ENDED = (JobState.SUCCEEDED, JobState.CANCELLED)


MAX_SEARCH_SECONDS = 10


class Group(StrEnum):
    """Each job is in exactly one.

    Needs attention: it failed, wholly or in part, and nobody of the tenant has looked at it since, nor retried it.
    """

    ATTENTION = "attention"
    RUNNING = "running"
    DONE = "done"


def find(
    context: JobContext,
    tenant_id: str,
    *,
    group: Group | None = None,
    text: str = "",
    limit: int = 50,
    before: str | None = None,
) -> list[JobView]:
    """The tenant's jobs of a group (None for all) in which `text` is found, newest first, at most `limit`.

    `text` is what people type: see `search.matches`; empty for no search. `before` is the cursor of the last one seen,
    or its id. Raises NotFound for an unknown `before`, InvalidRequest for a limit or a search that is too long, Busy
    when the tenant searches too often at once, and TooSlow when it takes more than MAX_SEARCH_SECONDS.
    """
    conditions = [] if group is None else [_in_group(group)]
    if not text.strip():
        return list_jobs(context, tenant_id, limit=limit, before=before, conditions=conditions)
    conditions.append(search.matches(context.database, tenant_id, text))
    with context.heavy_reads.searches.one(tenant_id):
        try:
            return list_jobs(
                context, tenant_id, limit=limit, before=before, conditions=conditions, seconds=MAX_SEARCH_SECONDS
            )
        except TooSlow as error:
            raise _too_slow() from error


def look(context: JobContext, tenant_id: str, job: JobView) -> None:
    """Notes that somebody saw how the job failed, so that it no longer needs attention. Nothing else changes."""
    if job.state not in _UNLUCKY or job.is_looked_at:
        return
    with context.database.transaction() as session:
        session.execute(
            update(Job)
            .where(Job.tenant_id == tenant_id, Job.id == job.id, Job.state.in_(_UNLUCKY), Job.looked_at.is_(None))
            .values(looked_at=now())
        )


def _too_slow() -> TooSlow:
    return TooSlow(
        f"The search took more than {MAX_SEARCH_SECONDS} s and was ended.",
        code="search_too_slow",
        remedy="Search under one group of the History, or by the API among jobs older than a known one ('before'); or "
        "try again when the portal has less to do.",
    )


def _in_group(group: Group) -> ColumnElement[bool]:
    is_unlucky = Job.state.in_(_UNLUCKY)
    match group:
        case Group.ATTENTION:
            return and_(is_unlucky, Job.looked_at.is_(None))
        case Group.RUNNING:
            return Job.state.in_(_UNFINISHED)
        case Group.DONE:
            return or_(Job.state.in_(_ENDED), and_(is_unlucky, Job.looked_at.is_not(None)))
