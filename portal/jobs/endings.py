"""A job ended by its tenant: cancelled while it waits or runs, deleted once it is over."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import ColumnElement, update
from sqlalchemy.orm import Session

from models import Job, Page
from models.base import now
from portal import audit
from portal.accounts.standing import refuse_ended_key
from portal.domain import JobState, PageState, Principal, Scope
from portal.errors import Conflict, Forbidden, NotFound
from portal.jobs import claims, deletion
from portal.jobs.context import JobContext
from portal.jobs.queries import JobView, get_job
from portal.usage.ledger import return_rest


def cancel(context: JobContext, principal: Principal, job_id: str) -> JobView:
    """Ends the job: pages not finished yet are not read and not charged, finished ones stay.

    A page that had failed and waits for its retry fails again with the error it had. Cancelling a cancelled job changes
    nothing. Raises NotFound, Forbidden, Conflict when it ended otherwise, or Unauthenticated when its key has ended.
    """
    _require_ocr(principal)
    with context.database.transaction() as session:
        refuse_ended_key(session, principal)
        job = _locked(session, principal.tenant_id, job_id)
        if not JobState(job.state).is_final:
            _fail_again(session, job)
            _cancel_pages(session, job)
            claims.close_when_done(session, job)
            if job.state != JobState.CANCELLED:
                job.looked_at = now()  # who withdraws a retry knows what failed
            _record(session, principal, "job.cancelled", job)
        elif job.state != JobState.CANCELLED:
            raise Conflict(
                f"The job has already {job.state}.", remedy="Nothing is left to cancel; fetch or delete its result."
            )
    context.notices.announce(job_id)
    return get_job(context, principal.tenant_id, job_id)


def delete(context: JobContext, principal: Principal, job_id: str) -> None:
    """Removes a finished job, its pages and the documents that only it used, rows and blobs.

    Ledger, audit entry and a deletion record stay. Raises NotFound, Forbidden, Conflict while the job is not over, or
    Unauthenticated when its key has ended.
    """
    _require_ocr(principal)
    with context.database.transaction() as session:
        refuse_ended_key(session, principal)
        job = _locked(session, principal.tenant_id, job_id)
        if not JobState(job.state).is_final:
            raise Conflict("The job is not over.", remedy="Cancel it first, then delete it.")
        _record(session, principal, "job.deleted", job)
        documents = deletion.delete_rows(session, context, job, actor=principal.label, reason="asked")
    deletion.discard(context, principal.tenant_id, documents)
    context.notices.announce(job_id)


def _require_ocr(principal: Principal) -> None:
    if Scope.OCR not in principal.scopes:
        raise Forbidden("This key may not change jobs.", remedy="Use a key with the scope 'ocr'.")


def _locked(session: Session, tenant_id: str, job_id: str) -> Job:
    job = claims.locked_job(session, tenant_id, job_id)
    if job is None:
        raise NotFound("There is no such job.")
    return job


def _fail_again(session: Session, job: Job) -> None:
    """Retried pages that were not read again are what they were before: failed, with their error and their entry."""
    _end_pages(session, job, PageState.FAILED, Page.error_code.is_not(None))


def _cancel_pages(session: Session, job: Job) -> None:
    _end_pages(session, job, PageState.CANCELLED)


def _end_pages(session: Session, job: Job, state: PageState, *conditions: ColumnElement[bool]) -> None:
    """Ends unfinished pages unread, and returns them to the reservations that they are of."""
    ended = session.scalars(
        update(Page)
        .where(*_unfinished(job), *conditions)
        .values(state=state, claimed_by=None, finished_at=now())
        .returning(Page.reservation_id)
        .execution_options(synchronize_session=False)
    )
    for reservation_id, pages in sorted(Counter(ended).items()):
        return_rest(session, job.tenant_id, reservation_id or "", "cancelled", pages=pages)


def _unfinished(job: Job) -> tuple[ColumnElement[bool], ...]:
    return (
        Page.tenant_id == job.tenant_id,
        Page.job_id == job.id,
        Page.state.in_((PageState.QUEUED, PageState.RUNNING)),
    )


def _record(session: Session, principal: Principal, action: str, job: Job) -> None:
    audit.record(
        session,
        action,
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=job.id,
        address=principal.address,
        pages=job.page_count,
        state=job.state,
    )
