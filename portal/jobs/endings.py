"""A job ended by its tenant: cancelled while it waits or runs, deleted once it is over."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select, update
from sqlalchemy import delete as sql_delete
from sqlalchemy.orm import Session

from models import DocumentRow, Job, Page, SearchText
from models.base import now
from portal import audit
from portal.accounts.standing import refuse_ended_key
from portal.domain import JobState, PageState, Principal, Scope
from portal.errors import Conflict, Forbidden, NotFound
from portal.jobs import claims
from portal.jobs.context import JobContext
from portal.jobs.queries import JobView, get_job
from portal.jobs.sweep import discard_blobs
from portal.usage.entries import EndedPage, record_page


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

    Usage entries and the audit entry stay. Raises NotFound, Forbidden, Conflict while the job is not over, or
    Unauthenticated when its key has ended.
    """
    _require_ocr(principal)
    with context.database.transaction() as session:
        refuse_ended_key(session, principal)
        job = _locked(session, principal.tenant_id, job_id)
        if not JobState(job.state).is_final:
            raise Conflict("The job is not over.", remedy="Cancel it first, then delete it.")
        _record(session, principal, "job.deleted", job)
        documents = _delete_rows(session, job)
    for document_id in documents:
        discard_blobs(context, principal.tenant_id, document_id)
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
    withdrawn = session.scalars(
        update(Page)
        .where(*_unfinished(job), Page.error_code.is_not(None))
        .values(state=PageState.FAILED, claimed_by=None, finished_at=now())
        .returning(Page.id)
        .execution_options(synchronize_session=False)
    ).all()
    for page_id in withdrawn:
        ended = EndedPage(job.tenant_id, job.member_id, job.api_key_id, job.id, page_id, job.task, job.engine)
        record_page(session, ended, "failed")


def _cancel_pages(session: Session, job: Job) -> None:
    session.execute(
        update(Page)
        .where(*_unfinished(job))
        .values(state=PageState.CANCELLED, claimed_by=None, finished_at=now())
        .execution_options(synchronize_session=False)
    )


def _unfinished(job: Job) -> tuple[ColumnElement[bool], ...]:
    return (
        Page.tenant_id == job.tenant_id,
        Page.job_id == job.id,
        Page.state.in_((PageState.QUEUED, PageState.RUNNING)),
    )


def _delete_rows(session: Session, job: Job) -> list[str]:
    own = select(Page.document_id).where(Page.tenant_id == job.tenant_id, Page.job_id == job.id)
    used = set(session.scalars(own))
    session.execute(sql_delete(SearchText).where(SearchText.tenant_id == job.tenant_id, SearchText.job_id == job.id))
    session.execute(sql_delete(Page).where(Page.tenant_id == job.tenant_id, Page.job_id == job.id))
    session.execute(sql_delete(Job).where(Job.tenant_id == job.tenant_id, Job.id == job.id))
    still_used = set(
        session.scalars(select(Page.document_id).where(Page.tenant_id == job.tenant_id, Page.document_id.in_(used)))
    )
    unused = sorted(used - still_used)
    session.execute(sql_delete(DocumentRow).where(DocumentRow.tenant_id == job.tenant_id, DocumentRow.id.in_(unused)))
    return unused


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
