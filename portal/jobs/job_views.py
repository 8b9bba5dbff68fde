"""Jobs and their pages as their tenant sees them, made from rows; `queries` looks them up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import ApiKey, DocumentRow, Job, Member, Page
from models.base import now
from portal.domain import JobState, PageState, TaskPrompt
from portal.jobs import claims, pace
from portal.jobs.context import JobContext
from portal.jobs.forecast import Forecast, Outlook
from portal.page_text import PageText
from portal.usage.limits import expires_at, terms_of
from portal.usage.receipts import Receipt, receipts

_CURSOR = re.compile(r"(\d{1,16})-(\w{1,40})", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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

    `lines_to_check` is None until it is read, and where its engine gives no scores. `is_reused` says that it was not
    read again, but took the reading of an identical page: it is free.
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
    is_reused: bool = False


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

    @property
    def finished(self) -> int:
        """Pages that will not be worked on any more."""
        return self.succeeded + self.failed + self.cancelled


@dataclass(frozen=True)
class JobView:
    """A job as its tenant sees it. `pages` is empty in lists and summaries; `counts` is always there.

    `is_looked_at` is about a job that failed, wholly or in part: that its tenant has seen it. `expires_at` is when it
    is deleted by the tenant's retention; None while it is not over, and when it is kept without limit.
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
    outlook: Outlook
    submitted_by: str | None
    via: Literal["browser", "key"]
    receipt: Receipt = field(default_factory=lambda: Receipt(()))
    is_looked_at: bool = False
    is_sample: bool = False
    expires_at: datetime | None = None

    @property
    def pages_charged(self) -> int:
        """Pages that the job has cost so far."""
        return self.receipt.charged

    @property
    def pages_ahead(self) -> int | None:
        """Pages served before its next one; None when none waits."""
        return self.outlook.pages_ahead

    @property
    def eta_seconds(self) -> float | None:
        """Estimated seconds until its last page; None when it is over, or nobody knows."""
        return self.outlook.eta_seconds

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
        """True when none of its pages waits or is read: nothing changes any more, unless failed pages are retried."""
        return self.state.is_final

    @property
    def cursor(self) -> str:
        """Where a list goes on after this job, also once the job is deleted: `list_jobs(before=…)` takes it."""
        return f"{_microseconds(self.created_at)}-{self.id}"


def job_views(
    session: Session, context: JobContext, tenant_id: str, jobs: Sequence[Job], *, pages: tuple[PageView, ...] = ()
) -> list[JobView]:
    """The tenant's jobs as it sees them, in the order given; `pages` are those of the one job, empty in lists."""
    ids = [job.id for job in jobs]
    counts = _counts(session, tenant_id, ids)
    documents = _documents(session, tenant_id, ids)
    senders = _senders(session, tenant_id, ids)
    bills = receipts(session, tenant_id, ids)
    forecast = Forecast(session, context)
    kept_days = terms_of(session, tenant_id, at=now()).limits.retention_days if jobs else None
    views = []
    for job in jobs:
        own = counts.get(job.id, PageCounts())
        outlook = forecast.of_job(job, running_pages=own.running)
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
                counts=own,
                documents=documents.get(job.id, ()),
                pages=pages,
                outlook=outlook,
                submitted_by=senders.get(job.id),
                via="browser" if job.api_key_id is None else "key",
                receipt=bills[job.id],
                is_looked_at=job.looked_at is not None,
                is_sample=job.is_sample,
                expires_at=expires_at(job.finished_at if JobState(job.state).is_final else None, kept_days),
            )
        )
    return views


def pages_mark(session: Session, tenant_id: str, job: JobView) -> str:
    """A short text that is another one whenever a page of the job has changed its state, told without their rows."""
    latest = session.execute(
        select(func.max(Page.started_at), func.max(Page.finished_at)).where(
            Page.tenant_id == tenant_id, Page.job_id == job.id
        )
    ).one()
    counts = job.counts
    numbers = (counts.queued, counts.running, counts.succeeded, counts.failed, counts.cancelled, counts.blank)
    return " ".join(map(str, (job.id, job.state, *numbers, *latest)))


def file_names(session: Session, tenant_id: str, job_ids: Sequence[str]) -> dict[str, str]:
    """Job → what to call it: its file, or its first one and how many more. A job that was deleted is left out."""
    named = {}
    for job_id, documents in _documents(session, tenant_id, job_ids).items():
        others = len(documents) - 1
        named[job_id] = documents[0].file_name + (f" and {others} more" if others else "")
    return named


def page_views(session: Session, tenant_id: str, job_id: str) -> tuple[PageView, ...]:
    """The job's pages in order, without their texts."""
    rows = session.execute(
        select(Page, DocumentRow.file_name)
        .join(DocumentRow, DocumentRow.id == Page.document_id)
        .where(Page.tenant_id == tenant_id, Page.job_id == job_id)
        .order_by(Page.position)
    )
    return tuple(page_view(page, file_name) for page, file_name in rows)


def page_view(page: Page, file_name: str) -> PageView:
    """One page of the file of that name."""
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
        is_reused=page.reused_page_id is not None,
    )


def _page_error(page: Page) -> PageError | None:
    if page.error_code is None or page.state != PageState.FAILED:  # a retried page keeps its last error until it ends
        return None
    return PageError(page.error_code, page.error_message or "", page.error_remedy or "")


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


def place_of_cursor(cursor: str) -> tuple[datetime, str] | None:
    """Time and id of the job whose cursor this is, None when it is no cursor."""
    found = _CURSOR.fullmatch(cursor)
    return None if found is None else (_EPOCH + timedelta(microseconds=int(found[1])), found[2])


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
