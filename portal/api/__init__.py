"""REST: the routes under /v1, the probes, the OpenAPI document and its reference page.

`router` is included in the portal's app before anything mounted at "/"; `install` translates errors.
"""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from portal.api import (
    admin,
    admin_fleet,
    admin_plans,
    chat,
    deletions,
    engines,
    fields,
    jobs,
    keys,
    members,
    ocr,
    probes,
    templates,
    usage,
)
from portal.api.docs import reference_page
from portal.api.incoming import remove_stale_folders
from portal.api.openapi import base_url, openapi_document
from portal.api.problems import ProblemRoute, install
from portal.http.given import giving
from portal.services import Services

__all__ = ["install", "router"]

_PARTS = (
    *(
        ocr.routes,
        chat.routes,
        jobs.routes,
        fields.routes,
        templates.routes,
        deletions.routes,
        engines.routes,
        usage.routes,
    ),
    *(keys.me_routes, keys.routes, members.routes, members.invite_routes),
    *(admin.routes, admin_plans.routes, admin_fleet.routes, probes.routes),
)
_ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


def router(services: Services) -> APIRouter:
    """All routes of the API for one running portal. Build the app with `openapi_url=None`: /docs is ours.

    Whatever else is asked of these paths or begins with /v1/ is answered 404 or 405 here, so that no app mounted
    at "/" sees it; a slash too many at the end is answered with a 308.
    """
    remove_stale_folders(services.settings.store.data_dir)

    readiness = probes.Readiness(services)

    async def give_readiness(request: Request) -> None:
        request.state.readiness = readiness

    api = APIRouter(dependencies=[giving(services), Depends(give_readiness)])
    for part in _PARTS:
        api.include_router(part)
    _add_reference(api, services)
    return api


def _add_reference(api: APIRouter, services: Services) -> None:
    routes: list[BaseRoute] = [route for part in _PARTS for route in part.routes]
    address = base_url(services.settings)
    document = openapi_document(routes, address)
    page = reference_page(document, address)

    async def show_openapi() -> JSONResponse:
        return JSONResponse(document)

    async def show_reference() -> HTMLResponse:
        return HTMLResponse(page)

    async def refuse(request: Request) -> Response:
        if _is_route_with_slash(request, routes):
            return RedirectResponse(_without_slash(request), status_code=308)  # keeps method and body
        raise _no_such_route(request, routes)

    rest = APIRouter(route_class=ProblemRoute, include_in_schema=False)
    rest.add_api_route("/openapi.json", show_openapi)
    rest.add_api_route("/docs", show_reference)
    routes.extend(rest.routes)
    for path in ("/v1", "/v1/{rest:path}", "/livez", "/readyz", "/openapi.json", "/docs"):
        rest.add_api_route(path, refuse, methods=_ALL_METHODS)
    api.include_router(rest)


def _is_route_with_slash(request: Request, routes: list[BaseRoute]) -> bool:
    path = request.scope["path"]
    bare = {**request.scope, "path": path.removesuffix("/")}
    return path.endswith("/") and any(route.matches(bare)[0] is not Match.NONE for route in routes)


def _without_slash(request: Request) -> str:
    path = quote(request.url.path.removesuffix("/"), safe="/%:@")
    return f"{path}?{request.url.query}" if request.url.query else path


def _no_such_route(request: Request, routes: list[BaseRoute]) -> HTTPException:
    allowed: set[str] = set()
    for route in routes:
        if route.matches(request.scope)[0] is Match.PARTIAL:
            allowed |= getattr(route, "methods", None) or set()
    if allowed:
        return HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})
    return HTTPException(404)
