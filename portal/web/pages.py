"""The page edge's one translator: refusals, missing pages and the unforeseen become pages that say what to do.

What nobody foresaw is logged with the request's id and shown as neutral text.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from portal.errors import InvalidRequest, NotFound, PortalError
from portal.http.problems import log_refusal, request_id, retry_after_seconds, status_of
from portal.web.refusals import is_navigation, sign_in_redirect
from portal.web.rendering import render

log = structlog.get_logger()

_TITLE_OF_STATUS = {
    403: "Not allowed",
    404: "Page not found",
    405: "Page not found",
    429: "Please wait a moment",
    503: "Back in a moment",
}


@dataclass(frozen=True)
class _Words:
    """What an error page says."""

    title: str
    message: str
    remedy: str


def install(app: FastAPI) -> None:
    """Makes pages of all errors. Install it before the API's translator, which takes its own paths back."""
    app.add_exception_handler(PortalError, _of_refusal)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(ClientDisconnect, _of_disconnect)
    app.add_exception_handler(Exception, _of_unforeseen)


async def _of_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, PortalError)  # noqa: S101 - Starlette's handlers are typed by their base
    if error.kind == "unauthenticated":
        return sign_in_redirect(_way_back(request))
    return _refused(request, error)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    if error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        missing = NotFound("There is no such page.", remedy="Check the address, or start from the workspace.")
        return _refused(request, missing, status=error.status_code)
    words = _Words("That did not work", f"{HTTPStatus(error.status_code).phrase}.", "Go back and try again.")
    return _page(request, words, status=error.status_code)


async def _of_validation(request: Request, _error: Exception) -> Response:
    return _refused(request, InvalidRequest("The address or the form is not as this page expects it."))


async def _of_disconnect(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)


async def _of_unforeseen(request: Request, error: Exception) -> Response:
    log.error(
        "request failed",
        request_id=request_id(request.scope),
        method=request.method,
        path=request.url.path,
        exc_info=error,
    )
    words = _Words(
        "Something went wrong",
        "The portal could not answer this request. It was not your doing.",
        "Try again in a moment. If it lasts, tell the portal's admin the number below.",
    )
    return _page(request, words, status=HTTPStatus.INTERNAL_SERVER_ERROR)


def _refused(request: Request, error: PortalError, *, status: int | None = None) -> Response:
    log_refusal(request.scope, error)
    status = status or status_of(error)
    words = _Words(_TITLE_OF_STATUS.get(status, "That did not work"), error.message, error.remedy)
    return _page(request, words, status=status, retry_after_seconds=retry_after_seconds(error))


def _page(request: Request, words: _Words, *, status: int, retry_after_seconds: int | None = None) -> Response:
    return render(
        "error.html",
        {"words": words, "status": status, "request_id": request_id(request.scope), "member": None},
        status=status,
        retry_after_seconds=retry_after_seconds,
    )


def _way_back(request: Request) -> str:
    """Where to come back to after signing in: this page, or the workspace when a form was sent."""
    if not is_navigation(request.scope):
        return "/"
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
