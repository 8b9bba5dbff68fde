"""Results, page images and page texts for signed-in browsers: the only place that serves a tenant's files to a page.

Each look-up takes the tenant of the signed-in member, so another tenant's id is a 404 like one that never was.
Programs have the same under /v1 with their key.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from models.base import now
from portal.documents.storage import storage_errors
from portal.documents.thumbnails import thumbnail
from portal.errors import NotFound, PortalError, Unavailable
from portal.http.audit_csv import audit_csv, filters_of
from portal.http.downloads import NOTHING_RUNS, download_headers, result_download
from portal.http.field_reading import fields_json
from portal.http.given import PortalServices, giving
from portal.http.ids import JobId, possible_id
from portal.http.problems import log_refusal, problem
from portal.http.usage_csv import usage_csv
from portal.jobs import queries
from portal.jobs.bundle import write_bundle
from portal.jobs.field_table import write_field_table
from portal.jobs.fields import document_fields
from portal.results.export import ExportFormat
from portal.services import Services
from portal.usage.reports import MAX_DAYS, last_days
from portal.usage.standing import standing_of
from portal.web.browsers import MemberBrowser, SignedInBrowser
from portal.web.page_reading import page_reading_json
from portal.web.refusals import is_navigation

_CHUNK_BYTES = 2**16
_MAX_POSITION = 2**31 - 1  # what the column holds

ChosenJobs = Annotated[list[Annotated[str, AfterValidator(possible_id)]], Query()]


class _FileRoute(APIRoute):
    """Refuses a link with a page (the translator of pages makes it) and a script or an image with problem+json."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except PortalError as error:
                if is_navigation(request.scope):
                    raise
                log_refusal(request.scope, error)
                return problem(request.scope, error)

        return answer


def router(services: Services) -> APIRouter:
    """The routes under /files."""
    routes = APIRouter(
        prefix="/files",
        route_class=_FileRoute,
        dependencies=[giving(services)],
        include_in_schema=False,
    )
    routes.add_api_route("/jobs/{job_id}/result", _result, methods=["GET"])
    routes.add_api_route("/jobs/{job_id}/fields.json", _fields, methods=["GET"])
    routes.add_api_route("/export", _export, methods=["GET"])
    routes.add_api_route("/fields.csv", _field_table, methods=["GET"])
    routes.add_api_route("/usage.csv", _usage, methods=["GET"])
    routes.add_api_route("/admin/audit.csv", _audit_csv, methods=["GET"])
    # Before the plain .jpg, whose position would take "1.small" for a number.
    routes.add_api_route("/jobs/{job_id}/pages/{position}.small.jpg", _page_thumbnail, methods=["GET"])
    routes.add_api_route("/jobs/{job_id}/pages/{position}.jpg", _page_image, methods=["GET", "HEAD"])
    routes.add_api_route("/jobs/{job_id}/pages/{position}.json", _page_reading, methods=["GET"])
    return routes


def _result(
    job_id: JobId, browser: MemberBrowser, services: PortalServices, format: ExportFormat = ExportFormat.TXT
) -> Response:
    tenant_id = browser.signed_in.principal.tenant_id
    found = queries.export_job(services.jobs, tenant_id, job_id, format, partial=True)
    return result_download(found, {"Cache-Control": "no-store"})


def _export(
    browser: MemberBrowser,
    services: PortalServices,
    job: ChosenJobs,
    format: ExportFormat = ExportFormat.TXT,
) -> Response:
    """Several jobs as one zip."""
    tenant_id = browser.signed_in.principal.tenant_id
    chunks = _written(services, tenant_id, partial(write_bundle, services.jobs, tenant_id, job, format))
    return _saved(chunks, f"jobs-{now():%Y-%m-%d}-{format}.zip", "application/zip")


def _field_table(browser: MemberBrowser, services: PortalServices, job: ChosenJobs) -> Response:
    """The fields of several jobs as one CSV; jobs of other tasks are left out of it."""
    tenant_id = browser.signed_in.principal.tenant_id
    chunks = _written(services, tenant_id, partial(write_field_table, services.jobs, tenant_id, job))
    return _saved(chunks, f"fields-{now():%Y-%m-%d}.csv", "text/csv; charset=utf-8")


def _saved(chunks: Iterator[bytes], file_name: str, media_type: str) -> Response:
    length = next(chunks)  # the file is complete; from here on the generator holds it, and ends with the answer
    own = {"Content-Length": length.decode(), "Cache-Control": "no-store"}
    return StreamingResponse(chunks, media_type=media_type, headers=download_headers(file_name) | own)


def _written(services: Services, tenant_id: str, write: Callable[[IO[bytes]], None]) -> Iterator[bytes]:
    """First the file's length as digits, then the file; one of the tenant's turns is taken until it is all read.

    It is written to a file without a name, so that nothing is left of it however this ends.
    """
    with services.jobs.heavy_reads.exports.one(tenant_id):
        with storage_errors():
            written = tempfile.TemporaryFile(dir=services.settings.store.data_dir)  # noqa: SIM115  closed below
        with written:
            with storage_errors():
                write(written)
                length = written.tell()
                written.seek(0)
            yield str(length).encode()
            while chunk := written.read(_CHUNK_BYTES):
                yield chunk


def _usage(
    browser: MemberBrowser, services: PortalServices, days: Annotated[int, Query(ge=1, le=MAX_DAYS)]
) -> Response:
    """The receipts of the last `days` days as CSV: what the Usage page shows."""
    tenant_id = browser.signed_in.principal.tenant_id
    with services.database.reading() as session:
        today = standing_of(session, tenant_id).period.day
    first, last = last_days(today, days)
    return usage_csv(services.database, tenant_id, first_day=first, last_day=last)


def _audit_csv(browser: MemberBrowser, services: PortalServices, request: Request) -> Response:
    """The audit log for an admin's browser; the filters are those of the Admin page."""
    principal = browser.signed_in.principal
    if not principal.is_admin:
        raise NotFound("There is no such file.")
    return audit_csv(services.database, principal, filters_of(request.query_params))


def _page_image(
    job_id: JobId, position: int, request: Request, browser: MemberBrowser, services: PortalServices
) -> Response:
    path = _view_path(job_id, position, browser, services)
    status = _status(path)
    headers = _kept(f"{status.st_mtime_ns:x}-{status.st_size:x}")
    if _has(request, headers):
        return Response(status_code=304, headers=headers)
    return FileResponse(path, media_type="image/jpeg", headers=headers, stat_result=status)


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError as error:  # its job was deleted since the look-up
        raise NotFound("There is no such page.") from error


def _page_thumbnail(
    job_id: JobId, position: int, request: Request, browser: MemberBrowser, services: PortalServices
) -> Response:
    path = _view_path(job_id, position, browser, services)
    headers = _kept(f"{_status(path).st_mtime_ns:x}-small")
    if _has(request, headers):
        return Response(status_code=304, headers=headers)
    try:
        small = thumbnail(path)
    except Unavailable:
        _status(path)  # its job may have been deleted meanwhile, which is no fault of the storage
        raise
    return Response(small, media_type="image/jpeg", headers=headers)


def _page_reading(job_id: JobId, position: int, browser: MemberBrowser, services: PortalServices) -> Response:
    tenant_id = browser.signed_in.principal.tenant_id
    reading = queries.page_reading(services.jobs, tenant_id, job_id, _checked(position))
    # Texts are never kept by the browser: they would outlive the sign-out in its cache.
    headers = _safe() | {"Cache-Control": "no-store"}
    return Response(page_reading_json(reading), media_type="application/json", headers=headers)


def _fields(job_id: JobId, browser: MemberBrowser, services: PortalServices) -> Response:
    specs, documents = document_fields(services.jobs, browser.signed_in.principal.tenant_id, job_id)
    headers = _safe() | {"Cache-Control": "no-store"}
    return Response(fields_json(specs, documents), media_type="application/json", headers=headers)


def _view_path(job_id: str, position: int, browser: SignedInBrowser, services: Services) -> Path:
    tenant_id = browser.signed_in.principal.tenant_id
    return queries.page_view_path(services.jobs, tenant_id, job_id, _checked(position))


def _checked(position: int) -> int:
    if not 1 <= position <= _MAX_POSITION:
        raise NotFound("There is no such page in this job.")
    return position


def _kept(mark: str) -> dict[str, str]:
    """Headers of what the browser keeps but asks for each time, so that signing out ends the sight of it.

    Page images: large, and looked at again and again. Signing out clears them (portal/web/sign_in.py).
    """
    return _safe() | {"ETag": f'"{mark}"', "Cache-Control": "private, no-cache"}


def _safe() -> dict[str, str]:
    return {
        "Content-Disposition": "inline",
        "Content-Security-Policy": NOTHING_RUNS,
        "X-Content-Type-Options": "nosniff",
    }


def _has(request: Request, headers: dict[str, str]) -> bool:
    return headers["ETag"] in request.headers.get("if-none-match", "")
