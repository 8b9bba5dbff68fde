"""One request of a signed-in member to Gradio, and how the guard reads a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.types import Message, Receive, Scope, Send

from portal.accounts.sessions import COOKIE_NAME, SignedIn
from portal.domain import Principal
from portal.errors import InvalidRequest
from portal.web.bindings import Owner
from portal.web.gradio_routes import Call, Match


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a signed-in member to an allowed route; `scope` is what Gradio will see."""

    owner: Owner
    match: Match
    scope: Scope
    receive: Receive
    send: Send

    @property
    def call(self) -> Call:
        """The shape of the body that a CALL route takes."""
        assert self.match.route.call is not None  # noqa: S101  # the table gives one to each CALL route
        return self.match.route.call

    @property
    def principal(self) -> Principal:
        """The proven member."""
        principal = self.scope["state"]["principal"]
        assert isinstance(principal, Principal)  # noqa: S101  the guard put it there
        return principal

    def is_page_of(self, names: tuple[str, ...]) -> bool:
        """True when the path is one of these pages, or below one."""
        return route_path(self.scope).strip("/").partition("/")[0] in names

    def query(self, name: str) -> str | None:
        """The value of a query parameter that may be given once. Raises InvalidRequest when it is repeated."""
        values = QueryParams(self.scope["query_string"]).getlist(name)
        if len(values) > 1:
            raise unexpected(f"'{name}' is given more than once.")
        return values[0] if values else None


def session_token(scope: Scope) -> str | None:
    """The session cookie's value; None when it is missing, or given twice with two values (a planted cookie)."""
    values = set()
    for header in Headers(scope=scope).getlist("cookie"):
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if name.strip() == COOKIE_NAME:
                values.add(value.strip())
    return values.pop() if len(values) == 1 else None


def owner_of(signed_in: SignedIn) -> Owner:
    """Whom things are bound to: the member, not the session, so that a new sign-in keeps what it uploaded."""
    return signed_in.principal.tenant_id, str(signed_in.principal.member_id)


def route_path(scope: Scope) -> str:
    """The decoded path below `root_path`, as Starlette's router sees it."""
    path, root_path = str(scope["path"]), str(scope.get("root_path", ""))
    is_below = bool(root_path) and path.startswith(root_path) and path[len(root_path) :][:1] in ("", "/")
    return path[len(root_path) :] if is_below else path


def until_signed_out(receive: Receive, *, is_signed_in: Callable[[], Awaitable[bool]], seconds: float) -> Receive:
    """A receive channel for a stream: it reports the browser gone once, asked every `seconds`, nobody is signed in."""

    async def next_message() -> Message:
        while True:
            with anyio.move_on_after(seconds):
                return await receive()
            if not await is_signed_in():
                return {"type": "http.disconnect"}

    return next_message


def without_headers(scope: Scope, hidden: frozenset[bytes]) -> Scope:
    """A copy of the scope without the named (lower-case) headers."""
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0].lower() not in hidden]}


def unexpected(what: str) -> InvalidRequest:
    """The refusal of a request that no page of ours would make."""
    return InvalidRequest(f"This request is not one that the portal's pages make: {what}", remedy="Reload the page.")
