"""Retention: what ended longer ago than the tenant's plan keeps is deleted by itself, with a record as for any other.

Never a job that waits, runs or was retried since. Bounded: so many jobs of each tenant in a round, so that one with a
large archive delays nobody's.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, select

from models import Job, Tenant
from models.base import now
from portal import audit
from portal.domain import JobState
from portal.jobs import claims, deletion
from portal.jobs.context import JobContext
from portal.usage.limits import terms_of

ACTOR = "retention"
_JOBS_A_ROUND = 20
_ROUNDS = 50
_FINAL = tuple(state for state in JobState if state.is_final)


def delete_expired(context: JobContext, *, at: datetime | None = None) -> int:
    """Deletes what has expired at the aware moment `at` (now); gives the number of jobs. Raises Unavailable."""
    at, deleted = at or now(), 0
    for _ in range(_ROUNDS):
        expired = _expired(context, at)
        for tenant_id, job_id, ended_before in expired:
            deleted += _delete(context, tenant_id, job_id, ended_before)
        if not expired:
            break
    return deleted


def _expired(context: JobContext, at: datetime) -> list[tuple[str, str, datetime]]:
    """(tenant, job, end of what is kept) of some expired jobs of each tenant, the oldest first."""
    found: list[tuple[str, str, datetime]] = []
    with context.database.reading() as session:
        for tenant_id in session.scalars(select(Tenant.id).order_by(Tenant.id)).all():
            days = terms_of(session, tenant_id, at=at).limits.retention_days
            if days is None:
                continue
            before = at - timedelta(days=days)
            jobs = session.scalars(
                select(Job.id)
                .where(Job.tenant_id == tenant_id, *_ended_before(before))
                .order_by(Job.finished_at)
                .limit(_JOBS_A_ROUND)
            )
            found += [(tenant_id, job_id, before) for job_id in jobs]
    return found


def _ended_before(moment: datetime) -> tuple[ColumnElement[bool], ...]:
    return Job.state.in_(_FINAL), Job.finished_at < moment


def _delete(context: JobContext, tenant_id: str, job_id: str, before: datetime) -> bool:
    with context.database.transaction() as session:
        job = claims.locked_job(session, tenant_id, job_id)
        if job is None or job.state not in _FINAL or job.finished_at is None or job.finished_at >= before:
            return False  # deleted or retried meanwhile
        documents = deletion.delete_rows(session, context, job, actor=ACTOR, reason="retention")
        audit.record(session, "job.expired", actor=ACTOR, tenant_id=tenant_id, target=job_id, pages=job.page_count)
    deletion.discard(context, tenant_id, documents)
    context.notices.announce(job_id)
    return True
