"""The REST edge's one translator: every refusal becomes `application/problem+json`, as `http/problems.py` writes it.

`install` takes only the API's own paths; errors of pages go on to whoever handled them before.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from portal.errors import InvalidRequest, NotFound, PortalError
from portal.http.problems import (
    log_refusal,
    problem_answer,
    problem_body,
    problem_headers,
    request_id,
    title_of,
)

_OPENAI_PATH = re.compile(r"/v1/(chat/completions|models)/?")
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_API_PATH = re.compile(r"/(v1(/.*)?|livez|readyz|openapi\.json)")
log = structlog.get_logger()

Handler = Callable[..., Any]


class ProblemRoute(APIRoute):
    """A route of the API: its answers carry X-Request-Id, and what nobody foresaw becomes a neutral 500."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wraps FastAPI's own handler; foreseen errors pass through to the handlers of `install`."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except HTTPException as error:
                if isinstance(error.__cause__, PortalError):  # which kept FastAPI from reading the body: not its syntax
                    raise error.__cause__ from None
                raise
            except (PortalError, RequestValidationError, ClientDisconnect):
                raise
            except Exception as error:  # noqa: BLE001 - this is the API's translator
                response = _of_unforeseen(request, error)
            response.headers["X-Request-Id"] = request_id(request.scope)
            return response

        return answer


def install(app: FastAPI) -> None:
    """Makes problem+json of all errors under /v1, /livez, /readyz and /openapi.json.

    Errors of other paths go to the handler that `app` had before this call, so a translator for pages comes first.
    """
    for kind, translate in (
        (PortalError, _of_refusal),
        (HTTPException, _of_http),
        (RequestValidationError, _of_validation),
        (ClientDisconnect, _of_disconnect),
        (Exception, _of_unforeseen),
    ):
        app.add_exception_handler(kind, _for_api_paths(translate, app.exception_handlers.get(kind)))


def is_api_path(path: str) -> bool:
    """True where errors are for programs, not for people in a browser."""
    return _API_PATH.fullmatch(path) is not None


def invalid_parameter(where: Sequence[str | int], message: str, *, remedy: str | None = None) -> InvalidRequest:
    """A refusal that names a parameter by its place: ('query', 'wait'), ('body', 'options', 'pages')."""
    place, *path = (str(part) for part in where)
    name = ".".join(path) or place
    return InvalidRequest(
        f"{name}: {message}",
        remedy=remedy or f"Correct '{name}' in the {place} and send the request again; /docs describes it.",
    )


def malformed_body(message: str, *, remedy: str) -> InvalidRequest:
    """A body that cannot be parsed at all: 400."""
    return InvalidRequest(message, code="malformed_body", remedy=remedy)


def refusal_body(request: Request, error: PortalError) -> dict[str, Any]:
    """A refusal as a problem, its type a place in /docs."""
    return problem_body(request.scope, error, type_uri=f"/docs#error-{error.code}")


def with_openai_error(body: dict[str, Any]) -> dict[str, Any]:
    """The problem with the same as OpenAI's clients look for it: `error` with message, type, param and code."""
    status = body["status"]
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    message = f"{body['detail']} {body['remedy']}"
    return {**body, "error": {"message": message, "type": kind, "param": None, "code": body["code"]}}


def first_invalid(errors: Sequence[Mapping[str, Any]]) -> InvalidRequest:
    """A refusal made of pydantic's first finding, which never repeats the value sent."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return malformed_body(
            "The body is not valid JSON.", remedy="Send valid JSON with 'Content-Type: application/json'."
        )
    return invalid_parameter(first["loc"], str(first["msg"]).removeprefix("Value error, "))


def _for_api_paths(translate: Handler, previous: Handler | None) -> Handler:
    async def handle(request: Request, error: Exception) -> Any:
        if is_api_path(request.url.path):
            return translate(request, error)
        if previous is None:
            raise error
        answer = previous(request, error)
        return await answer if inspect.isawaitable(answer) else answer

    return handle


def _of_refusal(request: Request, error: PortalError) -> Response:
    log_refusal(request.scope, error)
    answer = _answered(request, refusal_body(request, error), problem_headers(error))
    if error.kind == "unauthenticated":
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _of_validation(request: Request, error: RequestValidationError) -> Response:
    return _of_refusal(request, first_invalid(error.errors()))


def _of_http(request: Request, error: HTTPException) -> Response:
    if error.status_code == HTTPStatus.NOT_FOUND:
        missing = NotFound("There is no such route.", remedy="See /docs for the routes there are.")
        return _of_refusal(request, missing)
    phrase = HTTPStatus(error.status_code).phrase
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    body = {
        "type": f"/docs#error-{code}",
        "title": title_of(code),
        "status": error.status_code,
        "detail": f"{phrase}.",
        "code": code,
        "remedy": "See /docs for what this route takes.",
        "request_id": request_id(request.scope),
    }
    return _answered(request, body, error.headers or {})


def _of_disconnect(request: Request, error: ClientDisconnect) -> Response:
    log.info("client went away", request_id=request_id(request.scope))
    return Response(status_code=400)


def _of_unforeseen(request: Request, error: Exception) -> Response:
    log.error("request failed", request_id=request_id(request.scope), method=request.method, exc_info=error)
    body = {
        "type": "/docs#error-internal",
        "title": title_of("internal"),
        "status": HTTPStatus.INTERNAL_SERVER_ERROR,
        "detail": "The portal could not answer this request.",
        "code": "internal",
        "remedy": "Try again; if it lasts, give the request_id to the operator.",
        "request_id": request_id(request.scope),
    }
    return _answered(request, body, {})


def _answered(request: Request, body: dict[str, Any], headers: Mapping[str, str]) -> Response:
    is_openai = _OPENAI_PATH.fullmatch(request.url.path) is not None
    return problem_answer(with_openai_error(body) if is_openai else body, headers)
