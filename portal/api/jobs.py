"""/v1/jobs: hand files in, watch, find, fetch, cancel, retry, delete."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response, status
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from portal.api import contract
from portal.api.accepted import rate_limit_headers_of
from portal.api.access import Reader, Submitter
from portal.api.incoming import request_folder
from portal.api.job_orders import TEXT_NAMES, order_from
from portal.api.multipart_form import read_form
from portal.api.problems import ProblemRoute
from portal.api.schemas import JobBody, JobList, job_body, job_path, job_summary
from portal.documents.intake import Upload
from portal.domain import Principal
from portal.errors import Unavailable
from portal.http.downloads import result_download
from portal.http.given import PortalServices
from portal.http.ids import JobId, possible_id
from portal.jobs import endings, history, queries, templates
from portal.jobs.queries import JobView
from portal.jobs.retry import MAX_POSITIONS, retry
from portal.jobs.search import MAX_CHARACTERS, MAX_WORDS
from portal.jobs.submission import submit
from portal.results.export import ExportFormat
from portal.services import Services

MAX_WAIT_SECONDS = 60
_MAX_LIST = 100
_MAX_POSITION = 2**31 - 1  # what the column holds

routes = APIRouter(prefix="/v1/jobs", tags=["Jobs"], route_class=ProblemRoute)

RetriedPosition = Annotated[int, Field(ge=1, le=_MAX_POSITION)]
Wait = Annotated[
    float,
    Query(
        ge=0, le=MAX_WAIT_SECONDS, description="Answer when the job is finished, at the latest after so many seconds"
    ),
]


class RetryOrder(BaseModel):
    """Which failed pages are to be read again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pages: list[RetriedPosition] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_POSITIONS,
        description="Their `position` in the job; all that failed when it is left out",
        examples=[[7]],
    )


@routes.post(
    "",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Hand in one or many files",
    response_description="Accepted; the work goes on",
    responses=contract.job_submission(),
    openapi_extra=contract.JOB_FORM,
)
async def create_job(
    request: Request, response: Response, services: PortalServices, principal: Submitter, wait: Wait = 0
) -> JobBody:
    """Stores the files as one job and queues its pages.

    The answer is 202 with the job, or 200 when it was finished within `wait` seconds. A client that goes away while
    it waits loses nothing: the job goes on, and is listed.
    """
    limits = services.settings.intake
    async with request_folder(services.settings.store.data_dir) as folder:
        form = await read_form(request, folder, limits=limits, text_names=TEXT_NAMES)
        find = partial(templates.get_template, services.jobs, principal.tenant_id)
        order = await run_in_threadpool(order_from, form.texts, max_pages=limits.max_document_pages, find_template=find)
        uploads = [Upload(file.file_name, file.path) for file in form.files]
        job = await run_in_threadpool(submit, services.jobs, principal, uploads, order)
    response.headers.update(await run_in_threadpool(rate_limit_headers_of, services, principal))
    with suppress(Unavailable):  # the job is stored: a refusal now would make its sender hand it in twice
        job = await _waited(services, principal, job, wait)
    response.status_code = status.HTTP_200_OK if job.is_final else status.HTTP_202_ACCEPTED
    response.headers["Location"] = job_path(job.id)
    return job_body(job)


@routes.get("", summary="List jobs", responses=contract.job_list())
def list_jobs(
    services: PortalServices,
    principal: Reader,
    limit: Annotated[int, Query(ge=1, le=_MAX_LIST, description="Jobs in one answer")] = 50,
    before: Annotated[
        Annotated[str, AfterValidator(possible_id)] | None,
        Query(description="List what is older: `next_before` of the last answer, or a job's id"),
    ] = None,
    q: Annotated[
        str,
        Query(
            max_length=MAX_CHARACTERS,
            description=f"Only jobs in which each of these words (at most {MAX_WORDS}) is found, in the name of a file "
            "or on a page; or one whose id begins so",
        ),
    ] = "",
) -> JobList:
    """Your tenant's jobs, newest first, without their pages; with `q`, those in which it is found."""
    found = history.find(services.jobs, principal.tenant_id, text=q, limit=limit + 1, before=before)
    shown, has_more = found[:limit], len(found) > limit
    return JobList(
        data=[job_summary(job) for job in shown],
        has_more=has_more,
        next_before=shown[-1].cursor if has_more else None,
    )


@routes.get("/{job_id}", summary="Look at a job", responses=contract.reading("not_found", "invalid_request"))
async def show_job(services: PortalServices, principal: Reader, job_id: JobId, wait: Wait = 0) -> JobBody:
    """The job with the state of each page. With `wait` the answer comes when it is finished, or the time is up."""
    job = await run_in_threadpool(queries.get_job, services.jobs, principal.tenant_id, job_id)
    return job_body(await _waited(services, principal, job, wait))


@routes.get(
    "/{job_id}/result",
    summary="Fetch the text",
    response_class=Response,
    responses=contract.result(),
)
def fetch_result(
    services: PortalServices,
    principal: Reader,
    job_id: JobId,
    format: Annotated[ExportFormat, Query(description="Kind of file")] = ExportFormat.TXT,
    partial: Annotated[bool, Query(description="Take what is read so far of a job that is not finished")] = False,
) -> StreamingResponse:
    """The job's text as a file, sent page by page.

    A job that is not finished is a 409, unless `partial=true` asks for the pages read so far; the header X-Job-State
    says how the job stood. Pages that failed or are not read yet are named as such in the file. A job of which no
    page was read is a 409.
    """
    state = queries.get_job(services.jobs, principal.tenant_id, job_id).state
    export = queries.export_job(services.jobs, principal.tenant_id, job_id, format, partial=partial)
    return result_download(export, {"X-Job-State": state})


@routes.get(
    "/{job_id}/pages/{position}/image",
    summary="Fetch a page's image",
    response_class=FileResponse,
    responses=contract.page_image(),
)
def fetch_page_image(
    services: PortalServices,
    principal: Reader,
    job_id: JobId,
    position: Annotated[int, Path(ge=1, le=_MAX_POSITION, description="The page's `position` in the job")],
) -> FileResponse:
    """The page upright, as a JPEG: what the boxes of the JSON result are drawn on."""
    path = queries.page_view_path(services.jobs, principal.tenant_id, job_id, position)
    headers = {"Cache-Control": "private, no-store", "X-Content-Type-Options": "nosniff"}
    return FileResponse(path, media_type="image/jpeg", headers=headers)


@routes.post(
    "/{job_id}/cancel", summary="Cancel a job", responses=contract.writing("not_found", "conflict", "invalid_request")
)
def cancel_job(services: PortalServices, principal: Submitter, job_id: JobId) -> JobBody:
    """Stops a job: pages that were read stay and are charged, the others are neither read nor charged."""
    return job_body(endings.cancel(services.jobs, principal, job_id))


@routes.post(
    "/{job_id}/retry",
    status_code=status.HTTP_202_ACCEPTED,
    summary="Read failed pages again",
    response_description="Accepted; the pages wait for their turn",
    responses=contract.job_retry(),
)
async def retry_job(
    services: PortalServices,
    principal: Submitter,
    job_id: JobId,
    *,
    response: Response,
    order: RetryOrder | None = None,
    wait: Wait = 0,
) -> JobBody:
    """Queues the failed pages of a job again: all of them, or those that the body names.

    Pages that were read stay as they are, and are not charged again; a page that is read now is charged once, as if it
    had been read at first. Cancelled pages are not retried. The answer is 202 with the job, or 200 when it was finished
    within `wait` seconds.
    """
    positions = None if order is None else order.pages
    job = await run_in_threadpool(retry, services.jobs, principal, job_id, positions)
    response.headers.update(await run_in_threadpool(rate_limit_headers_of, services, principal))
    with suppress(Unavailable):  # the pages are queued
        job = await _waited(services, principal, job, wait)
    response.status_code = status.HTTP_200_OK if job.is_final else status.HTTP_202_ACCEPTED
    return job_body(job)


@routes.delete(
    "/{job_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    summary="Delete a finished job",
    responses=contract.writing("not_found", "conflict", "invalid_request"),
)
def delete_job(services: PortalServices, principal: Submitter, job_id: JobId) -> None:
    """Removes a finished job, its text and its files for good. One that is not finished is a 409: cancel it first."""
    endings.delete(services.jobs, principal, job_id)


async def _waited(services: Services, principal: Principal, job: JobView, seconds: float) -> JobView:
    if job.is_final or not seconds:
        return job
    return await queries.wait(services.jobs, principal.tenant_id, job.id, seconds)
