"""Pages change hands here: claimed by the dispatcher, stored with their outcome, released, recovered.

Each function works in the caller's transaction. A page is stored only by the process that claimed it and only
while it runs, so a page that was cancelled or taken over meanwhile is neither stored nor counted twice.
The job's row is always locked before its pages: two orders would deadlock on Postgres.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from models import DocumentRow, Job, Page
from models.base import now
from portal.domain import JobState, PageState, Task, TaskPrompt
from portal.usage.entries import EndedPage, Outcome, record_page

MAX_CLAIMS = 5


@dataclass(frozen=True)
class Claim:
    """One page that this process works on now. `worker` is the claimant's name."""

    worker: str
    page_id: str
    attempt: int
    number: int
    document_id: str
    media_type: str
    prompt: TaskPrompt
    ended: EndedPage

    @property
    def tenant_id(self) -> str:
        """Whose page it is."""
        return self.ended.tenant_id


@dataclass(frozen=True)
class Ending:
    """How a page ended: `result` as JSON when it was read, else code, message and remedy."""

    state: PageState
    outcome: Outcome
    attempt: int
    result: dict[str, Any] | None = None
    confidence: float | None = None
    lines_to_check: int | None = None
    error: tuple[str, str, str] | None = None


def waiting(session: Session, engine: str) -> dict[str, dict[str, int]]:
    """Queued pages of the engine: tenant → job → number of pages, the oldest job first. All tenants: it schedules."""
    rows = session.execute(
        select(Page.tenant_id, Page.job_id, func.count())
        .join(Job, Job.id == Page.job_id)
        .where(Page.state == PageState.QUEUED, Job.engine == engine)
        .group_by(Page.tenant_id, Page.job_id, Job.created_at)
        .order_by(Job.created_at, Page.job_id)
    )
    found: dict[str, dict[str, int]] = {}
    for tenant_id, job_id, pages in rows:
        found.setdefault(tenant_id, {})[job_id] = pages
    return found


def claim(session: Session, worker: str, tenant_id: str, job_id: str) -> Claim | None:
    """Takes the job's next queued page for `worker`; None when there is none any more."""
    job = locked_job(session, tenant_id, job_id)
    first = (
        select(Page.id)
        .where(Page.tenant_id == tenant_id, Page.job_id == job_id, Page.state == PageState.QUEUED)
        .order_by(Page.position)
        .limit(1)
    )
    page = session.execute(
        update(Page)
        .where(Page.id == first.scalar_subquery(), Page.state == PageState.QUEUED)
        .values(state=PageState.RUNNING, claimed_by=worker, attempt=Page.attempt + 1, started_at=now())
        .returning(Page.id, Page.attempt, Page.number, Page.document_id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if job is None or page is None:
        return None
    if job.state == JobState.QUEUED:
        job.state, job.started_at = JobState.RUNNING, now()
    own_document = (DocumentRow.tenant_id == tenant_id, DocumentRow.id == page.document_id)
    document = session.scalars(select(DocumentRow).where(*own_document)).one()
    return Claim(
        worker=worker,
        page_id=page.id,
        attempt=page.attempt,
        number=page.number,
        document_id=document.id,
        media_type=document.media_type,
        prompt=prompt_of(job),
        ended=EndedPage(
            tenant_id=tenant_id,
            member_id=job.member_id,
            api_key_id=job.api_key_id,
            job_id=job_id,
            page_id=page.id,
            task=job.task,
            engine=job.engine,
        ),
    )


def store(session: Session, held: Claim, ending: Ending) -> bool:
    """Stores the page's outcome, counts it, and closes the job after its last page.

    False when the page is not this claimant's any more (cancelled, deleted, taken over): nothing changes then.
    """
    job = locked_job(session, held.tenant_id, held.ended.job_id)
    code, message, remedy = ending.error or (None, None, None)
    changed = session.execute(
        update(Page)
        .where(*_still_held(held))
        .values(
            state=ending.state,
            attempt=ending.attempt,
            is_blank=ending.outcome == "blank",
            result=ending.result,
            confidence=ending.confidence,
            lines_to_check=ending.lines_to_check,
            error_code=code,
            error_message=message,
            error_remedy=remedy,
            claimed_by=None,
            finished_at=now(),
        )
        .returning(Page.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if job is None or changed is None:
        return False
    record_page(session, held.ended, ending.outcome)
    close_when_done(session, job)
    return True


def release(session: Session, held: Claim) -> None:
    """Gives an unfinished page back to the queue, its attempt uncounted: the portal stops in good order."""
    session.execute(
        update(Page)
        .where(*_still_held(held))
        .values(state=PageState.QUEUED, claimed_by=None, started_at=None, attempt=Page.attempt - 1)
        .execution_options(synchronize_session=False)
    )


def recover(session: Session) -> int:
    """Requeues every page left running by a process that died; returns how many.

    Called only by the one process that may dispatch. A page that was claimed MAX_CLAIMS times and never
    finished is failed instead: it may be what kills the process.
    """
    running = select(Page.job_id).where(Page.state == PageState.RUNNING)
    session.execute(select(Job.id).where(Job.id.in_(running)).order_by(Job.id).with_for_update()).all()
    orphans = session.scalars(select(Page).where(Page.state == PageState.RUNNING)).all()
    for page in orphans:
        page.claimed_by = None
        if page.attempt < MAX_CLAIMS:
            page.state = PageState.QUEUED
            page.started_at = None
            continue
        _fail_interrupted(session, page)
    return len(orphans)


def close_when_done(session: Session, job: Job) -> None:
    """Gives the job its final state once none of its pages is queued or running."""
    session.flush()
    rows = session.execute(
        select(Page.state, func.count())
        .where(Page.tenant_id == job.tenant_id, Page.job_id == job.id)
        .group_by(Page.state)
    )
    counts = {state: number for state, number in rows}
    if JobState(job.state).is_final or counts.get(PageState.QUEUED) or counts.get(PageState.RUNNING):
        return
    job.state = _final_state(counts)
    job.finished_at = now()


def locked_job(session: Session, tenant_id: str, job_id: str) -> Job | None:
    """The job's row, held until the transaction ends; None when it is gone or another tenant's."""
    # Two last pages ending at once on Postgres would each see the other still running without this lock.
    return session.scalars(
        select(Job).where(Job.tenant_id == tenant_id, Job.id == job_id).with_for_update()
    ).one_or_none()


def prompt_of(job: Job) -> TaskPrompt:
    """The task prompt that the job was submitted with."""
    return TaskPrompt(
        task=Task(job.task), fields=tuple(job.prompt.get("fields", ())), language=job.prompt.get("language")
    )


def _final_state(counts: dict[str, int]) -> JobState:
    if counts.get(PageState.CANCELLED):
        return JobState.CANCELLED
    if not counts.get(PageState.FAILED):
        return JobState.SUCCEEDED
    return JobState.PARTIAL if counts.get(PageState.SUCCEEDED) else JobState.FAILED


def _still_held(held: Claim) -> tuple[ColumnElement[bool], ...]:
    return (
        Page.id == held.page_id,
        Page.tenant_id == held.tenant_id,
        Page.claimed_by == held.worker,
        Page.state == PageState.RUNNING,
    )


def _fail_interrupted(session: Session, page: Page) -> None:
    job = session.get_one(Job, page.job_id)
    page.state = PageState.FAILED
    page.finished_at = now()
    page.error_code = "interrupted"
    page.error_message = f"The portal stopped {page.attempt} times while it read this page."
    page.error_remedy = "Send the page again as an image; tell the operator if it happens again."
    ended = EndedPage(page.tenant_id, job.member_id, job.api_key_id, job.id, page.id, job.task, job.engine)
    record_page(session, ended, "failed")
    close_when_done(session, job)
