"""What people and programs are shown of jobs: every look-up takes the tenant's id, another tenant's job is NotFound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session, undefer

from models import ApiKey, DocumentRow, Job, Member, Page
from portal.domain import JobState, PageState, PageText, TaskPrompt
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.jobs import claims, pace
from portal.jobs.context import JobContext
from portal.jobs.fairness import pages_ahead
from portal.results.assembly import ReadPage
from portal.results.export import Export, ExportFormat, export
from portal.results.serial import page_text_from_json

MAX_LISTED = 200


@dataclass(frozen=True)
class DocumentView:
    """A document of a job."""

    id: str
    file_name: str
    media_type: str
    byte_size: int
    page_count: int


@dataclass(frozen=True)
class PageError:
    """Why a page failed."""

    code: str
    message: str
    remedy: str


@dataclass(frozen=True)
class PageView:
    """A page of a job. `position` counts over the job, `number` in its document; `seconds` is None until it started.

    `lines_to_check` is None until it is read, and where its engine gives no scores.
    """

    position: int
    number: int
    document_id: str
    file_name: str
    state: PageState
    is_blank: bool
    confidence: float | None
    attempt: int
    error: PageError | None
    seconds: float | None
    lines_to_check: int | None = None


@dataclass(frozen=True)
class PageReading:
    """A page with what was read on it (None while it was not), and whether there is an image to show."""

    page: PageView
    text: PageText | None
    has_image: bool


@dataclass(frozen=True)
class PageCounts:
    """Pages of a job by state; `blank` ones are among the succeeded."""

    queued: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    blank: int = 0


@dataclass(frozen=True)
class JobView:
    """A job as its tenant sees it. `pages` is empty in lists; `counts` is always there.

    `pages_ahead` is the number of pages served before its next one (None when none waits), `eta_seconds` the
    estimated time until its last page (None when it is over).
    """

    id: str
    state: JobState
    task: str
    prompt: TaskPrompt
    engine: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    page_count: int
    counts: PageCounts
    documents: tuple[DocumentView, ...]
    pages: tuple[PageView, ...]
    pages_ahead: int | None
    eta_seconds: float | None
    submitted_by: str | None
    via: Literal["browser", "key"]

    @property
    def pages_done(self) -> int:
        """Pages that were read."""
        return self.counts.succeeded

    @property
    def pages_failed(self) -> int:
        """Pages that could not be read."""
        return self.counts.failed

    @property
    def is_final(self) -> bool:
        """True when nothing of the job will change any more."""
        return self.state.is_final


def get_job(context: JobContext, tenant_id: str, job_id: str) -> JobView:
    """The job with its pages. Raises NotFound."""
    with context.database.reading() as session:
        job = _job(session, tenant_id, job_id)
        return _views(session, context, tenant_id, [job], pages=_page_views(session, tenant_id, job_id))[0]


def list_jobs(context: JobContext, tenant_id: str, *, limit: int = 50, before: str | None = None) -> list[JobView]:
    """The tenant's jobs, newest first, at most `limit` (1–200); `before` is the id of the last one seen."""
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidRequest(f"limit must be between 1 and {MAX_LISTED}.", remedy="Page on with 'before'.")
    with context.database.reading() as session:
        found = select(Job).where(Job.tenant_id == tenant_id)
        if before is not None:
            last = _job(session, tenant_id, before)
            found = found.where(tuple_(Job.created_at, Job.id) < tuple_(last.created_at, last.id))
        found = found.order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)
        return _views(session, context, tenant_id, session.scalars(found).all(), pages=())


def page_text(context: JobContext, tenant_id: str, job_id: str, position: int) -> PageText | None:
    """What was read on a page, None while it was not. Raises NotFound."""
    with context.database.reading() as session:
        page = _page(session, tenant_id, job_id, position)
        return None if page.result is None else page_text_from_json(page.result)


def page_reading(context: JobContext, tenant_id: str, job_id: str, position: int) -> PageReading:
    """All there is to show of one page. Raises NotFound."""
    with context.database.reading() as session:
        page = _page(session, tenant_id, job_id, position)
        name = select(DocumentRow.file_name).where(
            DocumentRow.tenant_id == tenant_id, DocumentRow.id == page.document_id
        )
        view = _page_view(page, session.scalars(name).one())
        text = None if page.result is None else page_text_from_json(page.result)
    path = context.storage.page_view_path(tenant_id, view.document_id, view.number)
    return PageReading(view, text, has_image=path.is_file())


def page_view_path(context: JobContext, tenant_id: str, job_id: str, position: int) -> Path:
    """The JPEG of a page, upright. Raises NotFound, also while the page has not been rendered."""
    with context.database.reading() as session:
        page = _page(session, tenant_id, job_id, position)
    path = context.storage.page_view_path(tenant_id, page.document_id, page.number)
    if not path.is_file():
        raise NotFound("This page has no image.", remedy="Wait until it has been read.")
    return path


def read_pages(context: JobContext, tenant_id: str, job_id: str) -> list[ReadPage]:
    """All pages of a job with their texts, in order. Raises NotFound."""
    with context.database.reading() as session:
        _job(session, tenant_id, job_id)
        rows = session.execute(
            select(Page, DocumentRow.file_name)
            .join(DocumentRow, DocumentRow.id == Page.document_id)
            .where(Page.tenant_id == tenant_id, Page.job_id == job_id)
            .order_by(Page.position)
            .options(undefer(Page.result))
        )
        return [_read_page(page, file_name) for page, file_name in rows]


def export_job(context: JobContext, tenant_id: str, job_id: str, format: ExportFormat) -> Export:
    """The job's result as one file; pages not read yet are said in words. Raises NotFound.

    Raises Conflict while no page has ended.
    """
    job = get_job(context, tenant_id, job_id)
    if not job.is_final and not job.pages_done + job.pages_failed:
        raise Conflict("No page of this job has been read yet.", code="not_ready", remedy="Wait for its first page.")
    return export(job_header(job), read_pages(context, tenant_id, job_id), format)


def job_header(job: JobView) -> dict[str, Any]:
    """What a JSON result says of its job."""
    return {
        "id": job.id,
        "state": job.state.value,
        "task": job.task,
        "engine": job.engine,
        "created_at": job.created_at.isoformat(),
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
        "page_count": job.page_count,
        "pages": asdict(job.counts),
    }


async def wait(context: JobContext, tenant_id: str, job_id: str, seconds: float) -> JobView:
    """The job once it is over, or as it is after `seconds`. Raises NotFound."""
    deadline = time.monotonic() + seconds
    with context.notices.listening() as listener:
        while True:
            is_over = await anyio.to_thread.run_sync(_is_over, context, tenant_id, job_id)
            left = deadline - time.monotonic()
            if is_over or left <= 0:
                return await anyio.to_thread.run_sync(get_job, context, tenant_id, job_id)
            await listener.next(min(left, 1.0))


def _is_over(context: JobContext, tenant_id: str, job_id: str) -> bool:
    with context.database.reading() as session:
        return JobState(_job(session, tenant_id, job_id).state).is_final


def _job(session: Session, tenant_id: str, job_id: str) -> Job:
    job = session.scalars(select(Job).where(Job.tenant_id == tenant_id, Job.id == job_id)).one_or_none()
    if job is None:
        raise NotFound("There is no such job.")
    return job


def _page(session: Session, tenant_id: str, job_id: str, position: int) -> Page:
    page = session.scalars(
        select(Page)
        .where(Page.tenant_id == tenant_id, Page.job_id == job_id, Page.position == position)
        .options(undefer(Page.result))
    ).one_or_none()
    if page is None:
        raise NotFound("There is no such page.")
    return page


def _page_views(session: Session, tenant_id: str, job_id: str) -> tuple[PageView, ...]:
    rows = session.execute(
        select(Page, DocumentRow.file_name)
        .join(DocumentRow, DocumentRow.id == Page.document_id)
        .where(Page.tenant_id == tenant_id, Page.job_id == job_id)
        .order_by(Page.position)
    )
    return tuple(_page_view(page, file_name) for page, file_name in rows)


def _page_view(page: Page, file_name: str) -> PageView:
    return PageView(
        position=page.position,
        number=page.number,
        document_id=page.document_id,
        file_name=file_name,
        state=PageState(page.state),
        is_blank=page.is_blank,
        confidence=page.confidence,
        attempt=page.attempt,
        error=_page_error(page),
        seconds=pace.elapsed_seconds(page.started_at, page.finished_at),
        lines_to_check=page.lines_to_check,
    )


def _page_error(page: Page) -> PageError | None:
    if page.error_code is None:
        return None
    return PageError(page.error_code, page.error_message or "", page.error_remedy or "")


def _read_page(page: Page, file_name: str) -> ReadPage:
    return ReadPage(
        position=page.position,
        number=page.number,
        document_id=page.document_id,
        file_name=file_name,
        state=PageState(page.state),
        text=None if page.result is None else page_text_from_json(page.result),
        error=page.error_message,
    )


def _views(
    session: Session, context: JobContext, tenant_id: str, jobs: Sequence[Job], *, pages: tuple[PageView, ...]
) -> list[JobView]:
    ids = [job.id for job in jobs]
    counts = _counts(session, tenant_id, ids)
    documents = _documents(session, tenant_id, ids)
    senders = _senders(session, tenant_id, ids)
    queue = _Queue(session, context)
    views = []
    for job in jobs:
        ahead, eta = queue.forecast(job, counts.get(job.id, PageCounts()))
        views.append(
            JobView(
                id=job.id,
                state=JobState(job.state),
                task=job.task,
                prompt=claims.prompt_of(job),
                engine=job.engine,
                created_at=job.created_at,
                started_at=job.started_at,
                finished_at=job.finished_at,
                page_count=job.page_count,
                counts=counts.get(job.id, PageCounts()),
                documents=documents.get(job.id, ()),
                pages=pages,
                pages_ahead=ahead,
                eta_seconds=eta,
                submitted_by=senders.get(job.id),
                via="browser" if job.api_key_id is None else "key",
            )
        )
    return views


def _counts(session: Session, tenant_id: str, job_ids: Sequence[str]) -> dict[str, PageCounts]:
    rows = session.execute(
        select(Page.job_id, Page.state, Page.is_blank, func.count())
        .where(Page.tenant_id == tenant_id, Page.job_id.in_(job_ids))
        .group_by(Page.job_id, Page.state, Page.is_blank)
    )
    found: dict[str, dict[str, int]] = {}
    for job_id, state, is_blank, number in rows:
        own = found.setdefault(job_id, {})
        own[state] = own.get(state, 0) + number
        if is_blank:
            own["blank"] = own.get("blank", 0) + number
    return {job_id: PageCounts(**own) for job_id, own in found.items()}


def _documents(session: Session, tenant_id: str, job_ids: Sequence[str]) -> dict[str, tuple[DocumentView, ...]]:
    rows = session.execute(
        select(Page.job_id, DocumentRow)
        .join(DocumentRow, DocumentRow.id == Page.document_id)
        .where(Page.tenant_id == tenant_id, Page.job_id.in_(job_ids))
        .group_by(Page.job_id, DocumentRow.id)
        .order_by(func.min(Page.position))
    )
    found: dict[str, tuple[DocumentView, ...]] = {}
    for job_id, row in rows:
        view = DocumentView(row.id, row.file_name, row.media_type, row.byte_size, row.page_count)
        found[job_id] = (*found.get(job_id, ()), view)
    return found


def _senders(session: Session, tenant_id: str, job_ids: Sequence[str]) -> dict[str, str]:
    rows = session.execute(
        select(Job.id, Member.email, ApiKey.name)
        .outerjoin(Member, Member.id == Job.member_id)
        .outerjoin(ApiKey, ApiKey.id == Job.api_key_id)
        .where(Job.tenant_id == tenant_id, Job.id.in_(job_ids))
    )
    # Typed as never NULL, but both joins are outer ones.
    return {job_id: name or email for job_id, email, name in rows if name or email}


class _Queue:
    """Forecasts from one look at what waits; other tenants' work counts only as a number of pages."""

    def __init__(self, session: Session, context: JobContext) -> None:
        self._session = session
        self._slots = {engine.capability.name: engine.slots for engine in context.engines.all}
        self._waiting: dict[str, dict[str, dict[str, int]]] = {}
        self._pace: dict[str, pace.Pace] = {}

    def forecast(self, job: Job, counts: PageCounts) -> tuple[int | None, float | None]:
        """(pages ahead of the job's next page, seconds until its last page)."""
        if JobState(job.state).is_final:
            return None, None
        own = self._of(job.engine).get(job.tenant_id, {})
        pace_now = self._measure(job.engine)
        if job.id not in own:
            return None, pace_now.page_seconds if counts.running else 0.0
        others = {
            tenant: sum(jobs.values()) for tenant, jobs in self._of(job.engine).items() if tenant != job.tenant_id
        }
        first = pages_ahead(1, own, others, job=job.id)
        last = pages_ahead(own[job.id], own, others, job=job.id)
        return first, max(pace_now.page_seconds, (last + 1) * pace_now.drain_seconds)

    def _of(self, engine: str) -> dict[str, dict[str, int]]:
        if engine not in self._waiting:
            self._waiting[engine] = claims.waiting(self._session, engine)
        return self._waiting[engine]

    def _measure(self, engine: str) -> pace.Pace:
        if engine not in self._pace:
            self._pace[engine] = pace.measure(self._session, engine, self._slots.get(engine, 1))
        return self._pace[engine]
