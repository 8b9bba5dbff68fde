"""What the API answers with: jobs, deletions and how it is, as JSON bodies.

Times are ISO 8601 in UTC, sizes bytes, durations seconds, page positions and numbers counted from 1.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from portal.api.body import Body
from portal.api.usage_schemas import ReceiptBody, receipt_body
from portal.domain import JobState, Mode, PageState, Task
from portal.jobs.forecast import Outlook
from portal.jobs.queries import JobView, PageView


class Problem(BaseModel):
    """An error (RFC 9457): `code` for programs, `detail` and `remedy` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    request_id: str


class PageErrorBody(Body):
    """Why a page failed. Failed pages are not charged."""

    code: str
    message: str
    remedy: str


class PageBody(Body):
    """A page of a job: `position` counts over the job, `number` within its document."""

    position: int
    number: int
    document_id: str
    file_name: str
    state: PageState
    is_blank: bool
    is_reused: bool = Field(description="Not read again: it has the reading of an identical page, and is free")
    confidence: float | None = Field(description="0 to 1; null where the engine gives none")
    attempt: int
    seconds: float | None
    error: PageErrorBody | None
    image: str | None = Field(description="Path of the page's image, upright, once the page was read")


class DocumentBody(Body):
    """An uploaded file."""

    id: str
    file_name: str
    media_type: str
    byte_size: int
    page_count: int


class QueueBody(Body):
    """Where an unfinished job stands, and what it waits for."""

    position: int | None = Field(description="The place in the line of its next page, from 1; null when none waits")
    pages_ahead: int | None = Field(description="Pages that are begun before its next one")
    eta_seconds: float | None = Field(
        description="Seconds until it is finished, about; with second_server, until that has been asked again; null "
        "when nobody knows"
    )
    binding: Literal["turn", "engine_slots", "engine_unavailable", "second_server"] | None = Field(
        description="What its next page waits for: other pages' turns, a slot of the engine, the engine itself, or a "
        "server beside it (the text model, the engine that picks fields)"
    )
    detail: str | None = Field(description="What ails the engine, or the server beside it, in words")


class JobLinks(Body):
    """Where to go from here."""

    self: str
    result: str
    cancel: str | None = Field(description="null once the job is finished")
    retry: str | None = Field(description="null while no page of the job has failed")


class TemplateRefBody(Body):
    """The template of a run, as it was at that version."""

    name: str
    version: int


class JobSummary(Body):
    """A job without its pages, as in lists."""

    id: str
    object: Literal["job"] = "job"
    state: JobState
    task: Task
    fields: list[str] = Field(description="Names of the fields asked for")
    template: TemplateRefBody | None
    language: str | None = Field(description="Code of the language that the pages are translated into")
    mode: Mode = Field(description="How 'extract' was asked")
    engine: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None = Field(description="When it is deleted by itself; null while it is not finished")
    page_count: int
    pages_done: int
    pages_failed: int
    pages_charged: int = Field(description="Pages that were read and had text; no page is charged twice")
    receipt: ReceiptBody
    documents: list[DocumentBody]
    queue: QueueBody | None = Field(description="null once the job is finished")
    submitted_by: str | None
    via: Literal["browser", "key"]
    links: JobLinks


class JobBody(JobSummary):
    """A job with the state of each page."""

    pages: list[PageBody]


class JobList(Body):
    """One stretch of the history, newest first."""

    object: Literal["list"] = "list"
    data: list[JobSummary]
    has_more: bool
    next_before: str | None = Field(description="Pass it as `before` to read on; null at the end")


class DeletionBody(Body):
    """That something was deleted, and what went with it; nothing of its content."""

    id: str
    object: Literal["deletion"] = "deletion"
    kind: Literal["job", "document", "tenant"]
    target: str = Field(description="The id of what was deleted")
    reason: Literal["asked", "retention", "admin"]
    actor: str
    gone: dict[str, int] = Field(description="How many pages, readings, images, documents and bytes went")
    at: datetime


class DeletionList(Body):
    """Deletions, newest first."""

    object: Literal["list"] = "list"
    data: list[DeletionBody]
    has_more: bool
    next_before: str | None = Field(description="Pass it as `before` to read on; null at the end")


class WorkerCountBody(Body):
    """How many vLLM instances read, of all."""

    ready: int
    total: int


class ReadinessBody(Body):
    """Whether work can be taken, part by part."""

    status: Literal["ready", "unready"]
    parts: dict[str, str]
    workers: dict[str, WorkerCountBody] | None = Field(
        default=None, description="Of a fleet (PORTAL_FLEET_URL) and of routers in front of engines, as seen last"
    )


def job_body(job: JobView) -> JobBody:
    """A job with its pages."""
    return JobBody(**_summary(job), pages=[_page_body(job.id, page) for page in job.pages])


def job_summary(job: JobView) -> JobSummary:
    """A job without its pages."""
    return JobSummary(**_summary(job))


def job_path(job_id: str) -> str:
    """The job's own path."""
    return f"/v1/jobs/{job_id}"


def _summary(job: JobView) -> dict[str, Any]:
    own = job_path(job.id)
    queue = None if job.is_final else _queue(job.outlook)
    return {
        "id": job.id,
        "state": job.state,
        "task": job.task,
        "fields": list(job.prompt.field_names),
        "template": None if job.prompt.template is None else TemplateRefBody.model_validate(job.prompt.template),
        "language": job.prompt.language,
        "mode": job.prompt.mode,
        "engine": job.engine,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "expires_at": job.expires_at,
        "page_count": job.page_count,
        "pages_done": job.pages_done,
        "pages_failed": job.pages_failed,
        "pages_charged": job.pages_charged,
        "receipt": receipt_body(job.receipt),
        "documents": [DocumentBody.model_validate(document) for document in job.documents],
        "queue": queue,
        "submitted_by": job.submitted_by,
        "via": job.via,
        "links": JobLinks(
            self=own,
            result=f"{own}/result",
            cancel=None if job.is_final else f"{own}/cancel",
            retry=f"{own}/retry" if job.pages_failed else None,
        ),
    }


def _queue(outlook: Outlook) -> QueueBody:
    ahead = outlook.pages_ahead
    return QueueBody(
        position=None if ahead is None else ahead + 1,
        pages_ahead=ahead,
        eta_seconds=outlook.eta_seconds,
        binding=outlook.binding,
        detail=outlook.detail,
    )


def _page_body(job_id: str, page: PageView) -> PageBody:
    is_read = page.state is PageState.SUCCEEDED
    return PageBody(
        position=page.position,
        number=page.number,
        document_id=page.document_id,
        file_name=page.file_name,
        state=page.state,
        is_blank=page.is_blank,
        is_reused=page.is_reused,
        confidence=page.confidence,
        attempt=page.attempt,
        seconds=page.seconds,
        error=None if page.error is None else PageErrorBody.model_validate(page.error),
        image=f"{job_path(job_id)}/pages/{page.position}/image" if is_read else None,
    )
