"""How the guard and the file routes refuse: problem+json (RFC 9457), or the way to the sign-in page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Scope

from portal.errors import Kind, PortalError

_STATUS_OF_KIND: Mapping[Kind, int] = {
    "invalid": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "over_quota": 429,
    "busy": 503,
    "unavailable": 503,
}
_STATUS_OF_CODE: Mapping[str, int] = {"request_too_large": 413, "unsupported_media_type": 415}
_DEFAULT_RETRY_SECONDS = 30


class RequestTooLarge(PortalError):
    """The body is longer than this route takes."""

    code = "request_too_large"
    remedy = "Send less at once."


class UnsupportedMediaType(PortalError):
    """The body is of another kind than this route takes."""

    code = "unsupported_media_type"
    remedy = "Use the portal's own pages, or the API under /v1."


def status_of(error: PortalError) -> int:
    """The HTTP status of a refusal."""
    return _STATUS_OF_CODE.get(error.code, _STATUS_OF_KIND[error.kind])


def problem(error: PortalError, scope: Scope) -> Response:
    """The refusal as problem+json, with Retry-After where waiting helps; never cached."""
    status = status_of(error)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": error.code.replace("_", " ").capitalize(),
        "status": status,
        "detail": error.message,
        "code": error.code,
        "remedy": error.remedy,
        "request_id": scope.get("state", {}).get("request_id"),
    }
    return JSONResponse(
        body, status_code=status, headers=_headers(error, status), media_type="application/problem+json"
    )


def sign_in_redirect(next_path: str) -> Response:
    """303 to the sign-in page, which comes back to `next_path` (a path of ours, with its query)."""
    return RedirectResponse(
        f"/login?next={quote(next_path, safe='/')}", status_code=303, headers={"Cache-Control": "no-store"}
    )


def is_navigation(scope: Scope) -> bool:
    """True for a browser's address bar or link: a GET or HEAD that wants HTML and is not a script's request."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    headers = Headers(scope=scope)
    return "text/html" in headers.get("accept", "") and headers.get("sec-fetch-mode", "navigate") == "navigate"


def _headers(error: PortalError, status: int) -> dict[str, str]:
    headers = {"Cache-Control": "no-store"}
    if error.retry_after_seconds is not None:
        headers["Retry-After"] = str(error.retry_after_seconds)
    elif status in (429, 503):
        headers["Retry-After"] = str(_DEFAULT_RETRY_SECONDS)
    return headers
