"""How much of a request's body is read: 1 MiB, on every route there is, unless its reader keeps a bound of its own.

The bound is the connection's and not the route's, so a new route has it without a word, and it holds before the caller
is known. What streams larger bodies (uploads, images, a page's events) knows its caller first, then says so by
`bound_by_reader`.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from portal.errors import PortalError

MAX_BODY_BYTES = 2**20
_KEY = "portal.body"


class RequestTooLarge(PortalError):
    """The body is longer than this route takes."""

    code = "request_too_large"
    remedy = "Send less at once."


class BoundedBodies:
    """Pure ASGI around the whole application. Reading a body past its bound raises RequestTooLarge.

    A body that says its length is refused before its first byte, one that does not at the chunk that passes the bound.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(Headers(scope=scope), receive, send)
        await self._app({**scope, _KEY: body}, body.receive, body.send)


class _Body:
    """One request's body: what it is said to have, and what has been read of it."""

    def __init__(self, headers: Headers, receive: Receive, send: Send) -> None:
        said = headers.get("content-length", "")
        self.is_bounded = True
        self._bytes = 0
        self._said_bytes = int(said) if said.isdecimal() and said.isascii() else 0
        self._receive, self._send = receive, send
        self._is_answered = False

    async def receive(self) -> Message:
        if self._is_too_large:
            return self._refused()
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        return self._refused() if self._is_too_large else message

    async def send(self, message: Message) -> None:
        self._is_answered = True
        await self._send(message)

    @property
    def _is_too_large(self) -> bool:
        return self.is_bounded and max(self._bytes, self._said_bytes) > MAX_BODY_BYTES

    def _refused(self) -> Message:
        if self._is_answered:  # nobody reads it: an answer on its way only listens for its reader to leave
            return {"type": "http.disconnect"}
        raise RequestTooLarge(
            f"The body is larger than the {MAX_BODY_BYTES // 2**20} MiB that this route takes.",
            remedy="Send less at once; files go to /v1/jobs, /v1/ocr or /v1/chat/completions.",
        )


def bound_by_reader(scope: Scope) -> None:
    """Leaves the bound of this request's body to who calls this: it knows the caller, and refuses in its own words."""
    body = scope.get(_KEY)
    if isinstance(body, _Body):
        body.is_bounded = False
