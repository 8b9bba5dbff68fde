"""What people and programs are shown of jobs: every look-up takes the tenant's id, another tenant's job is NotFound."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio.to_thread
from sqlalchemy import ColumnElement, select, tuple_
from sqlalchemy.orm import Session, undefer

from models import DocumentRow, Job, Page
from portal.domain import JobState, PageState, Task
from portal.engine.fields.specs import specs_to_json
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.jobs.context import JobContext
from portal.jobs.fields import document_fields
from portal.jobs.job_views import (
    DocumentView,
    JobView,
    PageCounts,
    PageError,
    PageReading,
    PageView,
    job_views,
    page_view,
    page_views,
    pages_mark,
    place_of_cursor,
)
from portal.page_text import PageText
from portal.results.assembly import ReadPage
from portal.results.export import Export, ExportFormat, FieldTable, export
from portal.results.serial import page_text_from_json
from portal.usage.receipts import receipt_json

__all__ = [
    "MAX_LISTED",
    "DocumentView",
    "JobView",
    "PageCounts",
    "PageError",
    "PageReading",
    "PageView",
    "export_job",
    "get_job",
    "job_header",
    "job_summary",
    "list_jobs",
    "page_reading",
    "page_text",
    "page_view_path",
    "read_pages",
    "wait",
]

MAX_LISTED = 200
_BATCH_PAGES = 20
_BATCH_SECONDS = 30


def get_job(context: JobContext, tenant_id: str, job_id: str) -> JobView:
    """The job with its pages. Raises NotFound."""
    with context.database.reading() as session:
        job = _job(session, tenant_id, job_id)
        return job_views(session, context, tenant_id, [job], pages=page_views(session, tenant_id, job_id))[0]


def job_summary(context: JobContext, tenant_id: str, job_id: str) -> tuple[JobView, str]:
    """The job without its pages, and a mark that is another one once any of them has changed. Raises NotFound.

    Its cost does not grow with what is told of each page: for who asks again and again.
    """
    with context.database.reading() as session:
        [view] = job_views(session, context, tenant_id, [_job(session, tenant_id, job_id)])
        return view, pages_mark(session, tenant_id, view)


def list_jobs(
    context: JobContext,
    tenant_id: str,
    *,
    limit: int = 50,
    before: str | None = None,
    conditions: Sequence[ColumnElement[bool]] = (),
    seconds: float | None = None,
) -> list[JobView]:
    """The tenant's jobs, newest first, at most `limit` (1–200); older than `before`: a cursor, or a job's id.

    `conditions` on Job narrow them further. The cursor (`JobView.cursor` of the last one seen) works also after that
    job was deleted. Raises InvalidRequest, NotFound for an unknown id, and TooSlow past `seconds`.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidRequest(f"limit must be between 1 and {MAX_LISTED}.", remedy="Page on with 'before'.")
    with context.database.reading(seconds=seconds) as session:
        found = select(Job).where(Job.tenant_id == tenant_id, *conditions)
        if before is not None:
            found = found.where(tuple_(Job.created_at, Job.id) < _place(session, tenant_id, before))
        found = found.order_by(Job.created_at.desc(), Job.id.desc()).limit(limit)
        return job_views(session, context, tenant_id, session.scalars(found).all())


def page_text(context: JobContext, tenant_id: str, job_id: str, position: int) -> PageText | None:
    """What was read on a page, None while it was not. Raises NotFound."""
    with context.database.reading() as session:
        page = _page(session, tenant_id, job_id, position, with_result=True)
        return _text(page)


def page_reading(context: JobContext, tenant_id: str, job_id: str, position: int) -> PageReading:
    """All there is to show of one page. Raises NotFound."""
    with context.database.reading() as session:
        page = _page(session, tenant_id, job_id, position, with_result=True)
        name = select(DocumentRow.file_name).where(
            DocumentRow.tenant_id == tenant_id, DocumentRow.id == page.document_id
        )
        view = page_view(page, session.scalars(name).one())
        text = _text(page)
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


def read_pages(context: JobContext, tenant_id: str, job_id: str) -> Iterator[ReadPage]:
    """All pages of a job with their texts, in order, a few in memory at a time.

    No session is held between two pages, so a slow reader holds nothing; pages that end meanwhile come as they are
    then. Raises NotFound at the first page, and later when the job is deleted meanwhile.
    """
    batch: list[ReadPage] = []
    while True:
        batch = _batch(context, tenant_id, job_id, after=batch[-1].position if batch else 0)
        yield from batch
        if len(batch) < _BATCH_PAGES:
            return


def export_job(
    context: JobContext, tenant_id: str, job_id: str, format: ExportFormat, *, partial: bool = False
) -> Export:
    """The job's result as one file, read as it is written; pages without text are said in words.

    Raises NotFound; Conflict `no_fields` for a CSV of a job without fields, `job_not_finished` while the job is not
    over (with `partial`: while no page is read), `no_result` when it is over and no page was read.
    """
    job = get_job(context, tenant_id, job_id)
    _require_result(job, partial=partial)
    file_names = [document.file_name for document in job.documents]
    table = _field_table(context, tenant_id, job)
    if format is ExportFormat.CSV and table is None:
        raise Conflict("The job has no fields.", code="no_fields", remedy="CSV is for jobs of the task 'fields'.")
    return export(job_header(job), file_names, read_pages(context, tenant_id, job_id), format, fields=table)


def job_header(job: JobView) -> dict[str, Any]:
    """What a JSON result says of its job."""
    return {
        "id": job.id,
        "state": job.state.value,
        "task": job.task,
        **_asked_fields(job),
        "engine": job.engine,
        "created_at": job.created_at.isoformat(),
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
        "page_count": job.page_count,
        "pages": asdict(job.counts),
        "receipt": receipt_json(job.receipt),
    }


def _asked_fields(job: JobView) -> dict[str, Any]:
    if job.task != Task.FIELDS:
        return {}
    template = job.prompt.template
    ref = None if template is None else {"name": template.name, "version": template.version}
    return {"fields": specs_to_json(job.prompt.fields), "template": ref}


def _field_table(context: JobContext, tenant_id: str, job: JobView) -> FieldTable | None:
    if job.task != Task.FIELDS:
        return None
    specs, documents = document_fields(context, tenant_id, job.id)
    return FieldTable(specs, {one.document_id: (one.file_name, one.needs_check, one.values) for one in documents})


async def wait(context: JobContext, tenant_id: str, job_id: str, seconds: float) -> JobView:
    """The job once it is over, or as it is after `seconds`. Raises NotFound."""
    deadline = time.monotonic() + seconds
    with context.notices.listening(job_id) as listener:
        while True:
            is_over = await anyio.to_thread.run_sync(_is_over, context, tenant_id, job_id)
            left = deadline - time.monotonic()
            if is_over or left <= 0:
                return await anyio.to_thread.run_sync(get_job, context, tenant_id, job_id)
            await listener.next(min(left, 1.0))


def _is_over(context: JobContext, tenant_id: str, job_id: str) -> bool:
    with context.database.reading() as session:
        return JobState(_job(session, tenant_id, job_id).state).is_final


def _require_result(job: JobView, *, partial: bool) -> None:
    if job.is_final:
        if not job.pages_done:
            raise Conflict("No page of the job was read.", code="no_result", remedy="The job's pages say why.")
    elif not partial:
        raise Conflict(
            f"The job is {job.state}.",
            code="job_not_finished",
            remedy="Wait with GET /v1/jobs/{id}?wait=60, or take what is read so far with partial=true.",
        )
    elif not job.pages_done:
        raise Conflict(
            "No page of the job is read yet.",
            code="job_not_finished",
            remedy="Wait with GET /v1/jobs/{id}?wait=60.",
        )


def _place(session: Session, tenant_id: str, before: str) -> tuple[datetime, str]:
    """Time and id of the job that a list stopped at: a job's id, or its cursor, which outlives the job."""
    if "-" not in before:
        job = _job(session, tenant_id, before)
        return job.created_at, job.id
    place = place_of_cursor(before)
    if place is None:
        raise InvalidRequest("before: is no place in the list.", remedy="Send 'next_before' of the last answer.")
    return place


def _batch(context: JobContext, tenant_id: str, job_id: str, *, after: int) -> list[ReadPage]:
    with context.database.reading(seconds=_BATCH_SECONDS) as session:
        _job(session, tenant_id, job_id)
        rows = session.execute(
            select(Page, DocumentRow.file_name)
            .join(DocumentRow, DocumentRow.id == Page.document_id)
            .where(Page.tenant_id == tenant_id, Page.job_id == job_id, Page.position > after)
            .order_by(Page.position)
            .limit(_BATCH_PAGES)
            .options(undefer(Page.result), undefer(Page.fields))
        )
        return [_read_page(page, file_name) for page, file_name in rows]


def _job(session: Session, tenant_id: str, job_id: str) -> Job:
    job = session.scalars(select(Job).where(Job.tenant_id == tenant_id, Job.id == job_id)).one_or_none()
    if job is None:
        raise NotFound("There is no such job.")
    return job


def _page(session: Session, tenant_id: str, job_id: str, position: int, *, with_result: bool = False) -> Page:
    found = select(Page).where(Page.tenant_id == tenant_id, Page.job_id == job_id, Page.position == position)
    page = session.scalars(
        found.options(undefer(Page.result), undefer(Page.fields)) if with_result else found
    ).one_or_none()
    if page is None:
        raise NotFound("There is no such page.")
    return page


def _text(page: Page) -> PageText | None:
    return None if page.result is None else page_text_from_json({**page.result, "fields": page.fields})


def _read_page(page: Page, file_name: str) -> ReadPage:
    return ReadPage(
        position=page.position,
        number=page.number,
        document_id=page.document_id,
        file_name=file_name,
        state=PageState(page.state),
        text=_text(page),
        error=page.error_message,
    )
