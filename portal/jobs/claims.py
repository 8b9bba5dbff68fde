"""Pages change hands here: claimed by the dispatcher, stored with their outcome. Handed back: portal/jobs/handbacks.py.

Each function works in the caller's transaction. A page is stored only by the process that claimed it and only
while it runs, so a page that was cancelled or taken over meanwhile is neither stored nor counted twice.
The job's row is always locked before its pages: two orders would deadlock on Postgres.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.orm import Session

from models import DocumentRow, Job, Page
from models.base import now
from portal.documents.storage import Storage
from portal.domain import JobState, Mode, PageState, Task, TaskPrompt, TemplateRef
from portal.engine.fields.specs import specs_to_json, stored_specs
from portal.jobs import reruns, search
from portal.usage.ledger import EndedPage, Outcome, end_page


@dataclass(frozen=True)
class Claim:
    """One page that a process works on now. `token` names this claim: `<worker>/<random>`, never used again.

    `weight` is its tenant's.
    """

    token: str
    page_id: str
    attempt: int
    number: int
    document_id: str
    media_type: str
    prompt: TaskPrompt
    ended: EndedPage
    weight: float = 1.0

    @property
    def tenant_id(self) -> str:
        """Whose page it is."""
        return self.ended.tenant_id


@dataclass(frozen=True)
class Ending:
    """How a page ended: `result` as JSON when it was read, else code, message and remedy.

    `is_own_failure` says of a page that failed that it did so by what stands on it. Only such failures count towards
    the tenant's cap of uncharged pages; the portal's and the engine's own never do.
    """

    state: PageState
    outcome: Outcome
    attempt: int
    result: dict[str, Any] | None = None
    confidence: float | None = None
    lines_to_check: int | None = None
    error: tuple[str, str, str] | None = None
    is_own_failure: bool = False


def waiting(session: Session, engine: str, *, without: Collection[Task] = ()) -> dict[str, dict[str, int]]:
    """Queued pages of the engine: tenant → job → number of pages, the oldest job first. All tenants: it schedules.

    Pages whose twin is being read are left out: they wait for its reading, not for a turn; and so are postponed ones,
    and those of the tasks `without`.
    """
    rows = session.execute(
        select(Page.tenant_id, Page.job_id, func.count())
        .join(Job, Job.id == Page.job_id)
        .where(Page.state == PageState.QUEUED, Job.engine == engine, reruns.is_free_to_claim(), _is_due())
        .where(Job.task.not_in(without))
        .group_by(Page.tenant_id, Page.job_id, Job.created_at)
        .order_by(Job.created_at, Page.job_id)
    )
    found: dict[str, dict[str, int]] = {}
    for tenant_id, job_id, pages in rows:
        found.setdefault(tenant_id, {})[job_id] = pages
    return found


def claim(session: Session, worker: str, tenant_id: str, job_id: str) -> Claim | None:
    """Takes the job's next queued page for `worker`; None when there is none any more."""
    token = f"{worker}/{secrets.token_hex(4)}"
    job = locked_job(session, tenant_id, job_id)
    first = (
        select(Page.id)
        .join(Job, Job.id == Page.job_id)
        .where(Page.tenant_id == tenant_id, Page.job_id == job_id, Page.state == PageState.QUEUED)
        .where(reruns.is_free_to_claim(), _is_due())
        .order_by(Page.position)
        .limit(1)
    )
    page = session.execute(
        update(Page)
        .where(Page.id == first.scalar_subquery(), Page.state == PageState.QUEUED)
        .values(state=PageState.RUNNING, claimed_by=token, attempt=Page.attempt + 1, started_at=now(), wait_until=None)
        .returning(Page.id, Page.attempt, Page.number, Page.document_id, Page.reservation_id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if job is None or page is None:
        return None
    if job.state == JobState.QUEUED:
        job.state, job.started_at = JobState.RUNNING, now()
    own_document = (DocumentRow.tenant_id == tenant_id, DocumentRow.id == page.document_id)
    document = session.scalars(select(DocumentRow).where(*own_document)).one()
    return Claim(
        token=token,
        page_id=page.id,
        attempt=page.attempt,
        number=page.number,
        document_id=document.id,
        media_type=document.media_type,
        prompt=prompt_of(job),
        ended=EndedPage(tenant_id, job_id, page.id, page.reservation_id or ""),
    )


def take_readings(session: Session, storage: Storage, tenant_id: str, job_id: str) -> int:
    """Gives the job's waiting pages the readings of twins that have ended, and closes it after its last page."""
    job = locked_job(session, tenant_id, job_id)
    taken = 0 if job is None else reruns.take(session, storage, job)
    if job is not None and taken:
        if job.state == JobState.QUEUED:
            job.state, job.started_at = JobState.RUNNING, now()
        close_when_done(session, job)
    return taken


def store(session: Session, held: Claim, ending: Ending) -> bool:
    """Stores the page's outcome, counts it, and closes the job after its last page.

    False when the page is not this claimant's any more (cancelled, deleted, taken over): nothing changes then.
    """
    job = locked_job(session, held.tenant_id, held.ended.job_id)
    result, fields = _without_fields(ending.result)
    code, message, remedy = ending.error or (None, None, None)
    changed = session.execute(
        update(Page)
        .where(*still_held(held))
        .values(
            state=ending.state,
            attempt=ending.attempt,
            rerun_key=None if ending.outcome == "truncated" else Page.rerun_key,
            is_blank=ending.outcome == "blank",
            result=result,
            fields=fields,
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
    is_portals_fault = ending.outcome == "failed" and not ending.is_own_failure
    end_page(session, held.ended, ending.outcome, is_portals_fault=is_portals_fault)
    if result is not None:
        search.remember_page(session, held.tenant_id, job.id, held.page_id, result.get("text", ""))
    close_when_done(session, job)
    return True


def _without_fields(result: dict[str, Any] | None) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None]:
    """A page's result and its fields, which have a column of their own."""
    if result is None or "fields" not in result:
        return result, None
    return {key: value for key, value in result.items() if key != "fields"}, result["fields"]


def _is_due() -> ColumnElement[bool]:
    """The condition on a queued Page that it is not postponed."""
    return or_(Page.wait_until.is_(None), Page.wait_until <= now())


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
    template = job.prompt.get("template")
    return TaskPrompt(
        task=Task(job.task),
        fields=stored_specs(job.prompt.get("fields", ())),
        language=job.prompt.get("language"),
        template=None if template is None else TemplateRef(template["name"], template["version"]),
        mode=Mode(job.prompt.get("mode", Mode.DOCUMENT)),
    )


def prompt_to_json(prompt: TaskPrompt) -> dict[str, Any]:
    """The prompt as a job's row keeps it; `prompt_of` is the inverse."""
    template = prompt.template
    return {
        "fields": specs_to_json(prompt.fields),
        "language": prompt.language,
        "mode": prompt.mode.value,
        "template": None if template is None else {"name": template.name, "version": template.version},
    }


def _final_state(counts: dict[str, int]) -> JobState:
    if counts.get(PageState.CANCELLED):
        return JobState.CANCELLED
    if not counts.get(PageState.FAILED):
        return JobState.SUCCEEDED
    return JobState.PARTIAL if counts.get(PageState.SUCCEEDED) else JobState.FAILED


def still_held(held: Claim) -> tuple[ColumnElement[bool], ...]:
    """The conditions on a Page that the claim holds: it was neither cancelled nor taken over meanwhile."""
    return (
        Page.id == held.page_id,
        Page.tenant_id == held.tenant_id,
        Page.claimed_by == held.token,
        Page.state == PageState.RUNNING,
    )
