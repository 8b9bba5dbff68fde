"""Failed pages of a job are read again: all of them, or chosen ones. The job need not be over.

Only failed pages. Pages that were read stay as they are; cancelled ones were withdrawn by their tenant, which a retry
does not overrule: they are submitted again as a new job. A cancelled job may still have its failed pages retried, and
ends as cancelled again.

Counting: a failed page has a usage entry of nought. It is taken back in the transaction that queues the page, and the
page's next end adds its one entry through the same unique `page_id` as any other. So at every moment a page has at most
one entry, one that says 'read' is never taken back, and a page that fails thrice and is read at last is charged once.
Replacing the entry at the page's end would come to the same, but would weaken what record_page promises: that a page
recorded twice fails its transaction. How often a page was tried stays with it (`attempt`) and in the audit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models import Job, Page
from portal import audit
from portal.domain import JobState, PageState, Principal, Scope
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound
from portal.jobs import claims
from portal.jobs.backlog import lock_backlog, refuse_backlog
from portal.jobs.context import JobContext, require_task
from portal.jobs.queries import JobView, get_job
from portal.usage.entries import take_back_failures

MAX_POSITIONS = 1000


def retry(context: JobContext, principal: Principal, job_id: str, positions: Collection[int] | None = None) -> JobView:
    """Queues the failed pages at `positions` again and gives the job.

    `positions` count from 1 over the job, at most MAX_POSITIONS of them; None is for all that failed.

    Raises NotFound, Forbidden, Conflict (page_not_failed, nothing_to_retry), InvalidRequest (page_out_of_range,
    unknown_model), TaskUnavailable, TooManyInFlight, and Busy when the portal is full; then nothing has changed.
    """
    if Scope.OCR not in principal.scopes:
        raise Forbidden("This key may not change jobs.", remedy="Use a key with the scope 'ocr'.")
    with context.database.transaction() as session:
        lock_backlog(session)
        job = claims.locked_job(session, principal.tenant_id, job_id)
        if job is None:
            raise NotFound("There is no such job.")
        pages = _failed(session, job, positions)
        engine = context.engines.get(job.engine)
        require_task(engine, claims.prompt_of(job))
        refuse_backlog(session, principal.tenant_id, context, engine, pages=len(pages))
        _queue_again(session, job, positions)
        take_back_failures(session, job.tenant_id, [page.id for page in pages])
        _record(session, principal, job, pages)
    context.notices.announce(job_id)
    return get_job(context, principal.tenant_id, job_id)


def _failed(session: Session, job: Job, positions: Collection[int] | None) -> Sequence[Page]:
    own = select(Page).where(Page.tenant_id == job.tenant_id, Page.job_id == job.id).order_by(Page.position)
    if positions is None:
        pages = session.scalars(own.where(Page.state == PageState.FAILED)).all()
        if not pages:
            raise Conflict(
                "No page of this job has failed.",
                code="nothing_to_retry",
                remedy="Cancelled pages are not retried: submit the file again, with those pages.",
            )
        return pages
    _refuse_beyond(job, positions)
    pages = session.scalars(own.where(Page.position.in_(positions))).all()
    other = next((page for page in pages if page.state != PageState.FAILED), None)
    if other is not None:
        raise Conflict(
            f"Page {other.position} has not failed: it is {other.state}.",
            code="page_not_failed",
            remedy="Only failed pages are retried. Pages that were read are not read again.",
        )
    return pages


def _refuse_beyond(job: Job, positions: Collection[int]) -> None:
    beyond = [position for position in positions if not 1 <= position <= job.page_count]
    if beyond or not positions:
        raise InvalidRequest(
            f"The job has pages 1 to {job.page_count}; page {beyond[0] if beyond else 'list'} cannot be retried.",
            code="page_out_of_range",
            remedy="Choose positions of failed pages, or leave the choice out to retry all that failed.",
        )


def _queue_again(session: Session, job: Job, positions: Collection[int] | None) -> None:
    chosen = [] if positions is None else [Page.position.in_(positions)]
    session.execute(
        update(Page)
        .where(Page.tenant_id == job.tenant_id, Page.job_id == job.id, Page.state == PageState.FAILED, *chosen)
        .values(
            state=PageState.QUEUED,
            attempts_before_retry=Page.attempt,
            error_code=None,
            error_message=None,
            error_remedy=None,
            started_at=None,
            finished_at=None,
        )
        .execution_options(synchronize_session=False)
    )
    if JobState(job.state).is_final:
        job.state, job.finished_at, job.looked_at = JobState.RUNNING, None, None


def _record(session: Session, principal: Principal, job: Job, pages: Sequence[Page]) -> None:
    audit.record(
        session,
        "job.retried",
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=job.id,
        address=principal.address,
        pages=len(pages),
    )
