"""Results, page images and page texts for signed-in browsers: the only place that serves a tenant's files to a page.

Each look-up takes the tenant of the signed-in member, so another tenant's id is a 404 like one that never was.
Programs have the same under /v1 with their key.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import IO, Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import AfterValidator

from models.base import now
from portal.documents.storage import storage_errors
from portal.documents.thumbnails import thumbnail
from portal.errors import NotFound, PortalError
from portal.http.downloads import NOTHING_RUNS, download_headers, result_download
from portal.http.given import PortalServices, giving
from portal.http.ids import JobId, possible_id
from portal.http.problems import log_refusal, problem
from portal.jobs import queries
from portal.jobs.bundle import write_bundle
from portal.jobs.fields import document_fields
from portal.results.export import ExportFormat
from portal.services import Services
from portal.web.browsers import MemberBrowser, SignedInBrowser
from portal.web.field_reading import fields_json
from portal.web.page_reading import page_reading_json
from portal.web.refusals import is_navigation

_CHUNK_BYTES = 2**16
_MAX_POSITION = 2**31 - 1  # what the column holds


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
    job: Annotated[list[Annotated[str, AfterValidator(possible_id)]], Query()],
    format: ExportFormat = ExportFormat.TXT,
) -> Response:
    """Several jobs as one zip, written to a file without a name, so that nothing is left of it however this ends."""
    with storage_errors():
        zipped = tempfile.TemporaryFile(dir=services.settings.store.data_dir)  # noqa: SIM115  the answer closes it
        try:
            write_bundle(services.jobs, browser.signed_in.principal.tenant_id, job, format, zipped)
            length = zipped.tell()
            zipped.seek(0)
        except BaseException:
            zipped.close()
            raise
    own = {"Content-Length": str(length), "Cache-Control": "no-store"}
    headers = download_headers(f"jobs-{now():%Y-%m-%d}-{format}.zip") | own
    return StreamingResponse(_chunks(zipped), media_type="application/zip", headers=headers)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


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
    return Response(thumbnail(path), media_type="image/jpeg", headers=headers)


def _page_reading(
    job_id: JobId, position: int, request: Request, browser: MemberBrowser, services: PortalServices
) -> Response:
    tenant_id = browser.signed_in.principal.tenant_id
    reading = queries.page_reading(services.jobs, tenant_id, job_id, _checked(position))
    content = page_reading_json(reading)
    headers = _kept(hashlib.sha256(content).hexdigest()[:32])
    if _has(request, headers):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


def _fields(job_id: JobId, request: Request, browser: MemberBrowser, services: PortalServices) -> Response:
    specs, documents = document_fields(services.jobs, browser.signed_in.principal.tenant_id, job_id)
    content = fields_json(specs, documents)
    headers = _kept(hashlib.sha256(content).hexdigest()[:32])
    if _has(request, headers):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


def _view_path(job_id: str, position: int, browser: SignedInBrowser, services: Services) -> Path:
    tenant_id = browser.signed_in.principal.tenant_id
    return queries.page_view_path(services.jobs, tenant_id, job_id, _checked(position))


def _checked(position: int) -> int:
    if not 1 <= position <= _MAX_POSITION:
        raise NotFound("There is no such page in this job.")
    return position


def _kept(mark: str) -> dict[str, str]:
    """Headers of what the browser keeps but asks for each time, so that signing out ends the sight of it."""
    return {
        "ETag": f'"{mark}"',
        "Cache-Control": "private, no-cache",
        "Content-Disposition": "inline",
        "Content-Security-Policy": NOTHING_RUNS,
        "X-Content-Type-Options": "nosniff",
    }


def _has(request: Request, headers: dict[str, str]) -> bool:
    return headers["ETag"] in request.headers.get("if-none-match", "")
