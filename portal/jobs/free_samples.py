"""The bound on samples: they cost nothing, so nothing else would keep a tenant from running them without end."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import Job
from portal.domain import JobState
from portal.errors import TooManySamples
from portal.jobs.context import JobContext

MAX_UNFINISHED = 3
_RETRY_SECONDS = 10


def refuse_samples(session: Session, tenant_id: str) -> None:
    """Raises TooManySamples when the tenant has MAX_UNFINISHED samples that are not over."""
    unfinished = session.scalar(
        select(func.count())
        .select_from(Job)
        .where(Job.tenant_id == tenant_id, Job.is_sample, Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
    )
    if (unfinished or 0) >= MAX_UNFINISHED:
        raise TooManySamples(
            f"{MAX_UNFINISHED} samples of your tenant are waiting or being read.",
            retry_after_seconds=_RETRY_SECONDS,
        )


def look_before_drawing(context: JobContext, tenant_id: str) -> None:
    """The early look, before a sample is drawn; the one that counts is in the transaction that submits it."""
    with context.database.reading() as session:
        refuse_samples(session, tenant_id)
