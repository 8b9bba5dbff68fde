"""POST /v1/ocr: one document in, its text out, in the shape of Mistral's OCR API.

It is a job like any other, so it is queued fairly and stands in the history; the request only waits for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from portal.api import contract
from portal.api.accepted import rate_limit_headers_of
from portal.api.access import Submitter
from portal.api.incoming import IncomingFile, request_folder
from portal.api.json_body import JsonBody, read_json_body
from portal.api.mistral import (
    FIRST_PAGE,
    DocumentUrl,
    FailedPage,
    OcrRequest,
    OcrResponse,
    UsageInfo,
    asked_schema,
    document_url,
    engine_name,
    page_body,
    page_numbers,
    refuse_unsupported,
)
from portal.api.problems import ProblemRoute, first_invalid
from portal.documents.intake import Upload
from portal.domain import JobState, Principal, Task, TaskPrompt
from portal.engine.fields.annotation import annotation
from portal.engine.fields.schemas import specs_from_schema
from portal.errors import Conflict, InvalidRequest, NotFound, PageOutOfRange, PortalError, StillRunning, Unavailable
from portal.http.given import PortalServices
from portal.jobs import endings, queries
from portal.jobs.fields import document_fields
from portal.jobs.queries import JobView
from portal.jobs.submission import Order, submit
from portal.jobs.waiting import engine_to_wait_for, waiting_place
from portal.results.assembly import ReadPage
from portal.services import Services

MAX_OCR_WAIT_SECONDS = 300

routes = APIRouter(prefix="/v1/ocr", tags=["OCR"], route_class=ProblemRoute)


class NoPageRead(InvalidRequest):
    """The job ended without text: each page failed. Sending the same file again would fail alike."""

    code = "no_page_read"


@routes.post(
    "",
    summary="Read one document (Mistral-compatible)",
    response_model=OcrResponse,
    responses=contract.ocr(),
    openapi_extra=contract.json_request(OcrRequest),
)
async def read_document(
    request: Request,
    services: PortalServices,
    principal: Submitter,
    wait: Annotated[
        float, Query(gt=0, le=MAX_OCR_WAIT_SECONDS, description="Seconds to wait at most (the portal's own)")
    ] = MAX_OCR_WAIT_SECONDS,
) -> StreamingResponse:
    """Takes the request of Mistral's `/v1/ocr` and answers in its shape: clients work by changing the base URL.

    The document is a base64 `data:` URL of a PDF or an image; remote URLs are never fetched. `index` counts pages
    from 0; a page that failed is missing in `pages` and explained in `failed_pages`; when all failed the answer is a
    422. When the wait elapsed it is a 504, and when a part of the portal is away a 503, with the job's id: the job goes
    on. A client that goes away before cancels the job. With the engine away, or as many requests waiting as may, it is
    refused at once: jobs are still taken then.
    """
    folder_of_data = services.settings.store.data_dir
    async with request_folder(folder_of_data) as folder:
        limit_bytes = services.settings.intake.max_file_bytes
        body = await read_json_body(request, folder, file_name="The document", max_file_bytes=limit_bytes)
        max_pages = services.settings.intake.max_document_pages
        # In a thread: a schema may be large, and its patterns are compiled.
        asked, upload, order = await run_in_threadpool(_read_order, body, max_pages)
        async with waiting_place(services.jobs, engine_to_wait_for(services.jobs.engines, order.engine)):
            job = await run_in_threadpool(_submitted, services, principal, upload, order)
            limits = await run_in_threadpool(rate_limit_headers_of, services, principal)
            try:
                job = await _finished(request, services, principal, job, wait)
                _require_a_page(job)
            except PortalError as error:
                _tell_job(error, job.id)
                raise
    found = await run_in_threadpool(_annotation, services, principal, job, asked)
    pages = queries.read_pages(services.jobs, principal.tenant_id, job.id)
    return StreamingResponse(_response(job, pages, asked, found), media_type="application/json", headers=limits)


def _annotation(services: Services, principal: Principal, job: JobView, asked: OcrRequest) -> str | None:
    """The document's fields as JSON text, as Mistral's API has them; None where none were asked for."""
    schema = asked_schema(asked)
    if schema is None:
        return None
    specs, documents = document_fields(services.jobs, principal.tenant_id, job.id)
    return json.dumps(annotation(specs, documents[0].values, schema), ensure_ascii=False)


def _read_order(body: JsonBody[IncomingFile], max_pages: int) -> tuple[OcrRequest, Upload, Order]:
    asked = _checked(body)
    return asked, _upload(asked, body), _order(asked, max_pages=max_pages)


def _checked(body: JsonBody[IncomingFile]) -> OcrRequest:
    try:
        asked = OcrRequest.model_validate(body.value())
    except ValidationError as error:
        found = error.errors(include_input=False, include_context=False, include_url=False)[0]
        raise first_invalid([{**found, "loc": ("body", *found["loc"])}]) from None
    refuse_unsupported(asked)
    return asked


def _upload(asked: OcrRequest, body: JsonBody[IncomingFile]) -> Upload:
    url = document_url(asked)
    if url != body.placeholder or body.file is None:
        is_data = url[:5].lower() == "data:"
        raise InvalidRequest(
            "The data: URL is not base64." if is_data else "The portal fetches no URLs.",
            code="url_refused",
            remedy="Send the file itself as 'data:<media type>;base64,<base64 of the file>'.",
        )
    name = asked.document.document_name if isinstance(asked.document, DocumentUrl) else None
    suffix = body.media_type.rpartition("/")[2] or "bin"
    return Upload(name or f"document.{suffix}", body.file.path)


def _order(asked: OcrRequest, *, max_pages: int) -> Order:
    schema = asked_schema(asked)
    prompt = TaskPrompt() if schema is None else TaskPrompt(Task.FIELDS, specs_from_schema(schema))
    return Order(
        prompt=prompt,
        engine=engine_name(asked.model),
        page_numbers=page_numbers(asked.pages, max_pages=max_pages),
    )


def _submitted(services: Services, principal: Principal, upload: Upload, order: Order) -> JobView:
    try:
        return submit(services.jobs, principal, [upload], order)
    except PageOutOfRange as refusal:
        raise refusal.counted_from(FIRST_PAGE) from None


async def _finished(
    request: Request, services: Services, principal: Principal, job: JobView, seconds: float
) -> JobView:
    """The job once it is final. Raises StillRunning when the time is up; cancels it when the client goes."""
    waiting = asyncio.create_task(queries.wait(services.jobs, principal.tenant_id, job.id, seconds))
    leaving = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            await run_in_threadpool(_abandon, services, principal, job.id)
            raise ClientDisconnect
        job = waiting.result()
    finally:
        waiting.cancel()
        leaving.cancel()
    if not job.is_final:
        eta = round(job.eta_seconds or 0) + 1
        raise StillRunning("The document is not read yet.", job_id=job.id, retry_after_seconds=eta)
    return job


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _abandon(services: Services, principal: Principal, job_id: str) -> None:
    try:
        endings.cancel(services.jobs, principal, job_id)
    except (Conflict, NotFound):  # it ended, or was deleted, in the same moment
        return


def _tell_job(error: PortalError, job_id: str) -> None:
    """Puts the job's id into a refusal, so that nobody sends the document again and makes a second job."""
    error.job_id = job_id
    if isinstance(error, Unavailable):
        error.remedy = "The document was accepted and its job goes on: fetch that by its job_id; do not send it again."


def _require_a_page(job: JobView) -> None:
    if job.state is JobState.CANCELLED:
        raise Conflict("The job was cancelled while the request waited.", code="job_cancelled")
    if job.pages_done:
        return
    first = next((page.error for page in job.pages if page.error), None)
    raise NoPageRead(
        f"No page could be read. {first.message if first else ''}".strip(),
        remedy=first.remedy if first else "Look at the job's pages for the reasons.",
    )


def _response(job: JobView, pages: Iterable[ReadPage], asked: OcrRequest, annotated: str | None) -> Iterator[bytes]:
    """An OcrResponse as JSON, page by page: the whole of a large document is never in memory."""
    whole = OcrResponse(
        pages=[],
        model=job.engine,
        usage_info=UsageInfo(
            pages_processed=job.pages_done, doc_size_bytes=sum(document.byte_size for document in job.documents)
        ),
        document_annotation=annotated,
        job_id=job.id,
        failed_pages=_failed_pages(job),
    ).model_dump_json()
    opening = '{"pages":['
    yield opening.encode()
    comma = ""
    for page in pages:
        if page.text is not None:
            yield (comma + page_body(page.text, index=page.number - 1, order=asked).model_dump_json()).encode()
            comma = ","
    yield whole.removeprefix(opening).encode()


def _failed_pages(job: JobView) -> list[FailedPage]:
    return [
        FailedPage(
            index=page.number - 1,
            code=page.error.code,
            message=page.error.message,
            remedy=page.error.remedy,
        )
        for page in job.pages
        if page.error is not None
    ]
