"""The JSON body of a call to Gradio: read within a bound, held to its shape, written anew.

Gradio gets what was checked and nothing else: writing the body anew leaves no room for a second reading of it
(keys given twice, other encodings).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from portal.errors import InvalidRequest
from portal.http.bodies import RequestTooLarge, bound_by_reader
from portal.web.gradio_routes import SESSION_HASH, Call
from portal.web.refusals import UnsupportedMediaType

_REMEDY = "Reload the page; programs use the API under /v1."
_MAX_DIGITS = 18
_MAX_NUMBER = 2**31 - 1
_KINDS: dict[str, type | tuple[type, ...]] = {
    "data": object,
    "event_data": object,
    "fn_index": int,
    "component_id": int,
    "trigger_id": (int, type(None)),
    "session_hash": str,
    "event_id": (str, type(None)),
    "fn_name": str,
}


async def read_call(scope: Scope, receive: Receive, *, call: Call, max_bytes: int) -> dict[str, Any]:
    """The body as a dict that fits `call`. Raises RequestTooLarge, UnsupportedMediaType, InvalidRequest."""
    types = Headers(scope=scope).getlist("content-type")
    if len(types) != 1 or types[0].partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("This route takes application/json.", remedy=_REMEDY)
    bound_by_reader(scope)
    body = _parsed(await _read(scope, receive, max_bytes))
    if not isinstance(body, dict) or not call.needs <= body.keys() <= call.keys:
        raise _malformed()
    for key, value in body.items():
        if not isinstance(value, _KINDS[key]) or (_KINDS[key] is not object and not _is_possible(value)):
            raise _malformed()
    if "session_hash" in body and not SESSION_HASH.fullmatch(body["session_hash"]):
        raise _malformed()
    return body


def written(scope: Scope, body: dict[str, Any]) -> tuple[Scope, bytes]:
    """The body as bytes, and the scope with a Content-Length that fits them. Raises InvalidRequest for 1e999."""
    try:
        content = json.dumps(body, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise _malformed() from error
    replaced = (b"content-length", b"content-encoding", b"transfer-encoding", b"content-type")
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in replaced]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    return {**scope, "headers": headers}, content


def replay(content: bytes, receive: Receive) -> Receive:
    """A receive channel that gives `content` once and then waits for the browser to go away."""
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


def content_length(scope: Scope) -> int:
    """Bytes the body is said to have, 0 when it does not say. Raises InvalidRequest when that is no number."""
    length = Headers(scope=scope).get("content-length", "0")
    if not length.isdecimal() or len(length) > _MAX_DIGITS:
        raise _malformed()
    return int(length)


async def _read(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    if content_length(scope) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        if not message.get("more_body", False):
            return bytes(body)


def _is_possible(value: Any) -> bool:
    """False for numbers that Gradio counts nothing by: it has no function and no component below 0."""
    return not isinstance(value, bool) and not (isinstance(value, int) and not 0 <= value <= _MAX_NUMBER)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed() from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _malformed() -> InvalidRequest:
    return InvalidRequest("This call is not one that the portal's pages make.", remedy=_REMEDY)


def _too_large(max_bytes: int) -> RequestTooLarge:
    return RequestTooLarge(f"A call may have {max_bytes} bytes.", remedy="Send less at once; files are uploaded apart.")
