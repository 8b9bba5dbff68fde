"""The one map from refusals to HTTP, and their body as problem+json (RFC 9457).

A problem has type, title, status, detail, and of ours code, remedy, request_id, job_id where a job goes on although the
request was refused, and the limit that binds where one does. Which answers are problems and which are pages the edges'
translators decide: `api/problems.py`, `web/pages.py`.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

import structlog
from starlette.responses import JSONResponse
from starlette.types import Scope

from portal.errors import Kind, LimitReached, PortalError
from portal.usage.standing import TenantStanding

PROBLEM_MEDIA_TYPE = "application/problem+json"
NO_TYPE = "about:blank"

STATUS_OF_KIND: Mapping[Kind, int] = {
    "invalid": 422,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "over_quota": 429,
    "busy": 503,
    "unavailable": 503,
}
STATUS_OF_CODE: Mapping[str, int] = {
    "malformed_body": 400,
    "file_too_large": 413,
    "request_too_large": 413,
    "file_type_unknown": 415,
    "unsupported_media_type": 415,
    "still_running": 504,
}

_DEFAULT_RETRY_SECONDS = 30
_ACRONYM = re.compile(r"\b(?:api|url)\b", re.IGNORECASE)
_KEY = re.compile(r"ocr_[A-Za-z0-9_-]+")
log = structlog.get_logger()


def status_of(error: PortalError) -> int:
    """The HTTP status of a refusal."""
    return STATUS_OF_CODE.get(error.code, STATUS_OF_KIND[error.kind])


def retry_after_seconds(error: PortalError) -> int | None:
    """What Retry-After says, None where trying again later does not help."""
    if error.retry_after_seconds is None and error.kind in ("over_quota", "busy", "unavailable"):
        return _DEFAULT_RETRY_SECONDS
    return error.retry_after_seconds


def request_id(scope: Scope) -> str:
    """The id that ties the answer to its log lines: the one that the server gave the request, else a new one."""
    state = scope.setdefault("state", {})
    known: str = state.setdefault("request_id", secrets.token_hex(8))
    return known


def problem(scope: Scope, error: PortalError, *, type_uri: str = NO_TYPE) -> JSONResponse:
    """The answer to a refusal, with Retry-After where waiting helps; never cached."""
    return problem_answer(problem_body(scope, error, type_uri=type_uri), problem_headers(error))


def problem_body(scope: Scope, error: PortalError, *, type_uri: str = NO_TYPE) -> dict[str, Any]:
    """A refusal as a problem."""
    body: dict[str, Any] = {
        "type": type_uri,
        "title": title_of(error.code),
        "status": status_of(error),
        "detail": without_keys(error.message),
        "code": error.code,
        "remedy": without_keys(error.remedy),
        "request_id": request_id(scope),
    }
    if error.job_id is not None:
        body |= {"job_id": error.job_id, "links": {"self": f"/v1/jobs/{error.job_id}"}}
    if isinstance(error, LimitReached):
        body |= {"limit": error.limit, "allowed": error.allowed, "used": error.used}
    return body


def problem_headers(error: PortalError) -> dict[str, str]:
    """What a refusal says in headers: the limit that binds, and when trying again can help."""
    headers: dict[str, str] = {}
    if isinstance(error, LimitReached):
        headers |= rate_limit_headers(error.limit, error.allowed, error.used, error.reset_seconds)
    seconds = retry_after_seconds(error)
    return headers if seconds is None else {**headers, "Retry-After": str(seconds)}


def rate_limit_headers(limit: str, allowed: int, used: int, reset_seconds: int | None) -> dict[str, str]:
    """X-RateLimit-* of one limit: which it is, its value, what is left of it, seconds until its count starts anew."""
    headers = {
        "X-RateLimit-Resource": limit,
        "X-RateLimit-Limit": str(allowed),
        "X-RateLimit-Remaining": str(max(0, allowed - used)),
    }
    return headers if reset_seconds is None else {**headers, "X-RateLimit-Reset": str(reset_seconds)}


def standing_headers(standing: TenantStanding) -> dict[str, str]:
    """X-RateLimit-* of an accepted request: of the limit nearest to its end; none where there is no limit."""
    nearest = standing.nearest
    if nearest is None or nearest.allowed is None:
        return {}
    seconds = None
    if nearest.resets_at is not None:
        seconds = max(1, ceil((nearest.resets_at - standing.period.at).total_seconds()))
    return rate_limit_headers(nearest.limit, nearest.allowed, nearest.used, seconds)


def title_of(code: str) -> str:
    """A problem's title: its code in words, so that one code has one title on every edge."""
    return _ACRONYM.sub(lambda found: found[0].upper(), code.replace("_", " ").capitalize())


def problem_answer(body: Mapping[str, Any], headers: Mapping[str, str]) -> JSONResponse:
    """A problem's body as an answer with its request id; never cached. Its text may be a caller's, so any."""
    body = encodable(body)
    own = {"Cache-Control": "no-store", "X-Request-Id": str(body["request_id"])}
    return JSONResponse(body, status_code=body["status"], headers={**own, **headers}, media_type=PROBLEM_MEDIA_TYPE)


def log_refusal(scope: Scope, error: PortalError) -> None:
    """Logs a refusal that is the portal's own doing, under the request's id."""
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR:
        cause = type(error.__cause__).__name__ if error.__cause__ else None
        log.warning("request refused", request_id=request_id(scope), code=error.code, cause=cause)


def encodable(value: Any) -> Any:
    """The value with '?' for halves of surrogate pairs in its texts, which JSON can name and UTF-8 cannot hold."""
    if isinstance(value, Mapping):
        return {name: encodable(each) for name, each in value.items()}
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def without_keys(text: str) -> str:
    """The text with API keys in it made unreadable."""
    return _KEY.sub("ocr_…", text)
