"""Results and page images for signed-in browsers: the only place that serves a tenant's files to a page.

Each look-up takes the tenant of the signed-in member, so another tenant's id is a 404 like one that never was.
Programs have the same under /v1 with their key.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute

from portal.errors import NotFound, PortalError
from portal.http.downloads import NOTHING_RUNS, result_download
from portal.http.given import PortalServices, giving
from portal.http.ids import JobId
from portal.http.problems import log_refusal, problem
from portal.jobs import queries
from portal.results.export import ExportFormat
from portal.services import Services
from portal.web.browsers import MemberBrowser
from portal.web.refusals import is_navigation

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
        prefix="/files/jobs/{job_id}",
        route_class=_FileRoute,
        dependencies=[giving(services)],
        include_in_schema=False,
    )
    routes.add_api_route("/result", _result, methods=["GET"])
    routes.add_api_route("/pages/{position}.jpg", _page_image, methods=["GET", "HEAD"])
    return routes


def _result(
    job_id: JobId, browser: MemberBrowser, services: PortalServices, format: ExportFormat = ExportFormat.TXT
) -> Response:
    tenant_id = browser.signed_in.principal.tenant_id
    found = queries.export_job(services.jobs, tenant_id, job_id, format, partial=True)
    return result_download(found, {"Cache-Control": "no-store"})


def _page_image(
    job_id: JobId, position: int, request: Request, browser: MemberBrowser, services: PortalServices
) -> Response:
    if not 1 <= position <= _MAX_POSITION:
        raise NotFound("There is no such page in this job.")
    tenant_id = browser.signed_in.principal.tenant_id
    path = queries.page_view_path(services.jobs, tenant_id, job_id, position)
    status = path.stat()
    etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
    # The browser keeps it but asks each time, so that signing out ends the sight of it.
    headers = {
        "ETag": etag,
        "Cache-Control": "private, no-cache",
        "Content-Disposition": "inline",
        "Content-Security-Policy": NOTHING_RUNS,
        "X-Content-Type-Options": "nosniff",
    }
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return FileResponse(path, media_type="image/jpeg", headers=headers, stat_result=status)
