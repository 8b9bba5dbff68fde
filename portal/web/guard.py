"""The wall around Gradio, which is not a tenant boundary by itself (measured with 6.31.0).

Signed-in members only, from our own pages only, on an allow-list of routes; and what Gradio takes from anybody
(session hashes, event ids, upload ids, file paths) is bound to the member who brought it. It knows neither the
database nor the jobs: who is signed in is asked of `resolve`, at every request and while a stream is open, so a
revoked session ends at once, its streams within seconds.

What Gradio's functions get: `request.state.principal` (a portal.domain.Principal) and `request.state.csrf_token` on
a `gr.Request`, in load events, queued events and timer ticks alike. The cookie itself does not reach Gradio.

Not answered here: which member may do what in an event (each function asks the principal), and results, which are
served from our own routes; a file that Gradio made is unknown here and so a 404.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from portal.accounts.sessions import SignedIn
from portal.errors import Forbidden, NotFound, PortalError, Unauthenticated
from portal.http.bodies import bound_by_reader
from portal.http.problems import log_refusal, problem
from portal.web.bindings import Bindings, UploadBudget
from portal.web.calls import content_length, read_call, replay, written
from portal.web.event_files import EventFiles
from portal.web.gradio_page import HeldAnswer, private_answer, public_answer
from portal.web.gradio_routes import SESSION_HASH, AllowedRoutes, Check
from portal.web.origin import check_origin, is_own_url
from portal.web.refusals import is_navigation, sign_in_redirect
from portal.web.uploads import UploadStream, drain, sweep
from portal.web.visit import Visit, owner_of, route_path, session_token, unexpected, until_signed_out, without_headers

_STREAMS = frozenset({Check.SESSION_IN_PATH, Check.SESSION_IN_QUERY, Check.UPLOAD_PROGRESS})
_SWEEP_EVERY_SECONDS = 600
_STRAY_AFTER_SECONDS = 3600
# The portal's cookie stays here; the others would let a caller choose the address that Gradio writes into pages.
_HIDDEN_HEADERS = frozenset(
    {b"cookie", b"authorization", b"x-forwarded-host", b"x-forwarded-proto", b"x-gradio-server", b"accept-encoding"}
)


class Resolve(Protocol):
    """`partial(sessions.resolve, database)`: who holds a token. Called in a thread, at every request."""

    def __call__(self, token: str, *, address: str | None = None) -> SignedIn | None:
        """None when the token is unknown, revoked or expired."""
        ...


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What the guard holds one Gradio app to.

    `pages` are the names of its pages ('history'), `admin_pages` those of them that are served to the portal's admins
    alone and are unknown to others, `upload_dir` Gradio's upload folder, `public_origin` the 'https://host' that people
    see, None to take each request's own; `page_head` is HTML for the head of each page, `functions` the indices of its
    events (None: any), for Gradio answers an unknown one with a fault; `titles` a title for each path that has one of
    its own, for Gradio gives all pages one, and by a script. Bindings end after `idle_seconds` without use; a stream
    asks every `recheck_seconds` whether its member is still signed in.
    """

    pages: tuple[str, ...]
    upload_dir: Path
    admin_pages: tuple[str, ...] = ()
    public_origin: str | None = None
    page_head: str = ""
    functions: frozenset[int] | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    upload_bytes_per_member: int = 2 * 2**30
    upload_window_seconds: int = 3600
    max_upload_files: int = 100
    max_call_bytes: int = 4 * 2**20
    max_names_per_member: int = 2000
    idle_seconds: int = 24 * 3600
    recheck_seconds: float = 15


class GradioGuard:
    """Pure ASGI around the mounted Gradio app."""

    def __init__(self, app: ASGIApp, *, resolve: Resolve, rules: GuardRules) -> None:
        self._app = app
        self._resolve = resolve
        self._rules = rules
        self._routes = AllowedRoutes(rules.pages)
        self._budget = UploadBudget(
            bytes_per_member=rules.upload_bytes_per_member, window_seconds=rules.upload_window_seconds
        )
        bindings = partial(Bindings, idle_seconds=rules.idle_seconds, max_names_per_owner=rules.max_names_per_member)
        self._sessions, self._events, self._upload_ids, self._paths = (bindings() for _ in range(4))
        self._next_sweep = 0.0
        self._answers: Mapping[Check, Callable[[Visit], Awaitable[None]]] = {
            Check.PAGE: self._page,
            Check.MEMBER: self._pass,
            Check.SESSION_IN_PATH: self._session_in_path,
            Check.SESSION_IN_QUERY: self._session_in_query,
            Check.CALL: self._call,
            Check.UPLOAD: self._upload,
            Check.UPLOAD_PROGRESS: self._upload_progress,
            Check.FILE: self._file,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection. Gradio has no WebSocket, so none is opened."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._http(scope, receive, watched)
        except PortalError as error:
            if started or is_navigation(scope):
                raise  # the portal's translator makes a page of it
            log_refusal(scope, error)
            await problem(scope, error)(scope, receive, send)
        except ClientDisconnect:
            return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = route_path(scope)
        match = self._routes.match(scope["method"], path)
        if match is not None and match.route.check is Check.PUBLIC:
            public_scope = without_headers(scope, _HIDDEN_HEADERS - {b"accept-encoding"})
            await self._app(public_scope, receive, public_answer(send, path))
            return
        signed_in = await self._signed_in(scope)
        if signed_in is None:
            await self._to_sign_in(scope, path)(scope, receive, send)
            return
        if match is None:
            raise NotFound("There is no such page.", remedy="Go to the start page.")
        if match.route.check is not Check.PAGE:
            check_origin(scope, self._rules.public_origin)
        if match.route.check in _STREAMS:
            receive = self._until_signed_out(scope, receive)
        visit = Visit(owner_of(signed_in), match, self._inner_scope(scope, signed_in), receive, private_answer(send))
        await self._answers[match.route.check](visit)

    async def _signed_in(self, scope: Scope) -> SignedIn | None:
        token = session_token(scope)
        if token is None:
            return None
        client = scope.get("client")
        return await run_sync(partial(self._resolve, token, address=client[0] if client else None))

    def _until_signed_out(self, scope: Scope, receive: Receive) -> Receive:
        async def is_signed_in() -> bool:
            return await self._signed_in(scope) is not None

        return until_signed_out(receive, is_signed_in=is_signed_in, seconds=self._rules.recheck_seconds)

    def _to_sign_in(self, scope: Scope, path: str) -> ASGIApp:
        if not is_navigation(scope):
            return problem(scope, Unauthenticated("Sign in to use the portal.", remedy="Sign in, then try again."))
        if not self._routes.is_page(path):
            return sign_in_redirect("/")
        query = scope["query_string"].decode("latin-1")
        return sign_in_redirect(f"{path}?{query}" if query else path)

    def _inner_scope(self, scope: Scope, signed_in: SignedIn) -> Scope:
        inner = without_headers(scope, _HIDDEN_HEADERS)
        if self._rules.public_origin is not None:
            scheme, _, host = self._rules.public_origin.partition("://")
            inner["headers"] += [(b"x-forwarded-host", host.encode()), (b"x-forwarded-proto", scheme.encode())]
        inner["state"] = {
            **scope.get("state", {}),
            "principal": signed_in.principal,
            "csrf_token": signed_in.csrf_token,
        }
        return inner

    async def _pass(self, visit: Visit) -> None:
        await self._app(visit.scope, visit.receive, visit.send)

    async def _page(self, visit: Visit) -> None:
        # Gradio would take either from a stranger's address: another's saved page, or a page by name (a KeyError).
        if visit.query("deep_link") is not None or visit.query("page") is not None:
            raise NotFound("There is no such page.", remedy="Go to the start page.")
        if visit.is_page_of(self._rules.admin_pages) and not visit.principal.is_admin:
            raise NotFound("There is no such page.", remedy="Go to the start page.")
        held = HeldAnswer()
        await self._app(visit.scope, visit.receive, held.send)
        held.dress(self._rules.page_head, title=self._rules.titles.get(route_path(visit.scope)))
        await held.release(visit.send)

    async def _session_in_path(self, visit: Visit) -> None:
        self._claim_session(visit, visit.match.values["session_hash"])
        await self._pass(visit)

    async def _session_in_query(self, visit: Visit) -> None:
        session_hash = visit.query("session_hash") or ""
        if not SESSION_HASH.fullmatch(session_hash):
            raise unexpected("'session_hash' is missing or malformed.")
        self._claim_session(visit, session_hash)
        await self._pass(visit)

    async def _call(self, visit: Visit) -> None:
        body = await read_call(visit.scope, visit.receive, call=visit.call, max_bytes=self._rules.max_call_bytes)
        self._check_call(visit, body)
        scope, content = written(visit.scope, body)
        receive = replay(content, visit.receive)
        if visit.match.route.template != "/gradio_api/queue/join":
            await self._app(scope, receive, visit.send)
            return
        held = HeldAnswer()
        await self._app(scope, receive, held.send)
        joined = held.json()
        if joined is not None:
            self._events.share(joined["event_id"], visit.owner)
        await held.release(visit.send)

    def _check_call(self, visit: Visit, body: dict[str, Any]) -> None:
        EventFiles(
            self._rules.upload_dir,
            is_mine=lambda path: self._paths.owns(path, visit.owner),
            is_own_url=lambda url: is_own_url(url, visit.scope, self._rules.public_origin),
        ).check(body)
        functions = self._rules.functions
        if functions is not None and "fn_index" in body and body["fn_index"] not in functions:
            raise NotFound("There is no such event.", remedy="The portal was updated perhaps: reload the page.")
        event_id = body.get("event_id")
        if event_id is not None and not self._events.owns(event_id, visit.owner):
            raise NotFound("This event is not yours, or it has ended.")
        if "session_hash" in body:
            self._claim_session(visit, body["session_hash"])

    def _claim_session(self, visit: Visit, session_hash: str) -> None:
        if not self._sessions.claim(session_hash, visit.owner):
            raise Forbidden("This page was opened by somebody else.", remedy="Reload the page.")

    async def _upload(self, visit: Visit) -> None:
        self._claim_upload_id(visit)
        self._budget.check(visit.owner, content_length(visit.scope))
        bound_by_reader(visit.scope)
        stream = UploadStream(
            visit.scope,
            visit.receive,
            count=partial(self._budget.spend, visit.owner),
            max_files=self._rules.max_upload_files,
        )
        held = HeldAnswer()
        await self._app(visit.scope, stream.receive, held.send)
        if stream.refusal is not None:
            if not stream.is_read:
                await drain(visit.receive)
            raise stream.refusal
        for path in held.json() or ():
            self._paths.share(path, visit.owner)
        await held.release(visit.send)
        await self._sweep()

    async def _upload_progress(self, visit: Visit) -> None:
        if visit.query("upload_id") is None:
            raise unexpected("'upload_id' is missing.")
        self._claim_upload_id(visit)
        await self._pass(visit)

    def _claim_upload_id(self, visit: Visit) -> None:
        upload_id = visit.query("upload_id")
        if upload_id is None:
            return
        if not SESSION_HASH.fullmatch(upload_id):
            raise unexpected("'upload_id' is malformed.")
        if not self._upload_ids.claim(upload_id, visit.owner):
            raise Forbidden("This upload was begun by somebody else.", remedy="Upload the file again.")

    async def _file(self, visit: Visit) -> None:
        if not self._paths.owns(visit.match.values["path_or_url"], visit.owner):
            raise NotFound("There is no such file among your uploads.", remedy="Results are under /files.")
        await self._pass(visit)

    async def _sweep(self) -> None:
        if time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _SWEEP_EVERY_SECONDS
            await run_sync(partial(sweep, self._rules.upload_dir, older_than_seconds=_STRAY_AFTER_SECONDS))


def guard_mounted(portal: Starlette, *, path: str, resolve: Resolve, rules: GuardRules) -> None:
    """Puts the guard around the app mounted at `path` ('' for '/'). Raises LookupError when there is none."""
    for route in portal.routes:
        if isinstance(route, Mount) and route.path == path.rstrip("/"):
            route.app = GradioGuard(route.app, resolve=resolve, rules=rules)
            return
    raise LookupError(f"nothing is mounted at {path!r}")


def gradio_username(request: Any) -> str | None:
    """For Gradio's `auth_dependency`: its own login check then fails too where the guard were missing."""
    principal = request.scope.get("state", {}).get("principal")
    return None if principal is None else principal.label
