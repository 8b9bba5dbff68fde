"""Failed pages of a job are read again: all of them, or chosen ones. The job need not be over.

Only failed pages. Pages that were read stay as they are; cancelled ones were withdrawn by their tenant, which a retry
does not overrule: they are submitted again as a new job. A cancelled job may still have its failed pages retried, and
ends as cancelled again.

A queued page keeps the error of its last try, unseen until it ends: when the job is cancelled before the page is read
again, it is what it was, a failed page with that error and its entry of nought (portal/jobs/endings.py), and may be
retried once more.

Counting: a failed page was returned to the reservation of its job. A retry makes a reservation of its own, and the
page's next end is entered under that: within one reservation a page ends once, over all of them it is charged once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models import Job, Page
from portal import audit
from portal.accounts.standing import refuse_ended_key
from portal.domain import JobState, PageState, Principal, Scope
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound
from portal.jobs import claims
from portal.jobs.backlog import admitted_pages
from portal.jobs.context import JobContext, require_task
from portal.jobs.queries import JobView, get_job
from portal.usage.admission import Ask
from portal.usage.refusals import counting_refusals

MAX_POSITIONS = 1000


def retry(context: JobContext, principal: Principal, job_id: str, positions: Collection[int] | None = None) -> JobView:
    """Queues the failed pages at `positions` again and gives the job.

    `positions` count from 1 over the job, at most MAX_POSITIONS of them; None is for all that failed.

    Raises NotFound, Forbidden, Conflict (page_not_failed, nothing_to_retry), InvalidRequest (page_out_of_range,
    unknown_model), TaskUnavailable, LimitReached, Busy when the portal is full, and Unauthenticated when its key
    has ended meanwhile; then nothing has changed.
    """
    if Scope.OCR not in principal.scopes:
        raise Forbidden("This key may not change jobs.", remedy="Use a key with the scope 'ocr'.")
    with counting_refusals(context.database, principal.tenant_id), context.database.transaction() as session:
        refuse_ended_key(session, principal)
        job = claims.locked_job(session, principal.tenant_id, job_id)
        if job is None:
            raise NotFound("There is no such job.")
        pages = _failed(session, job, positions)
        engine = context.engines.get(job.engine)
        require_task(engine, claims.prompt_of(job))
        with admitted_pages(session, context, principal, engine, _ask(job, pages)) as held:
            _queue_again(session, job, positions, held.reservation_id)
            _record(session, principal, job, pages)
    context.notices.announce(job_id)
    return get_job(context, principal.tenant_id, job_id)


def _ask(job: Job, pages: Sequence[Page]) -> Ask:
    return Ask(
        pages=0 if job.is_sample else len(pages),
        job_id=job.id,
        task=job.task,
        engine=job.engine,
        reason="sample" if job.is_sample else "retried",
    )


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


def _queue_again(session: Session, job: Job, positions: Collection[int] | None, reservation_id: str) -> None:
    chosen = [] if positions is None else [Page.position.in_(positions)]
    session.execute(
        update(Page)
        .where(Page.tenant_id == job.tenant_id, Page.job_id == job.id, Page.state == PageState.FAILED, *chosen)
        .values(
            state=PageState.QUEUED,
            reservation_id=reservation_id,
            attempts_before_retry=Page.attempt,
            wait_until=None,
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
