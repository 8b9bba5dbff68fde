"""Real multi-page Gradio apps behind a real uvicorn: with the guard, without it, and with tight limits.

Run as a process of its own, `python -m tests.web.guarded_app`: Gradio leaves event loops open and warns at will, which
the tests' own process takes for errors. It prints one line of JSON, then serves until it is ended.
"""

from __future__ import annotations

import os
import sys

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = "1000000000"

import asyncio
import json
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gradio as gr
import uvicorn
from fastapi import FastAPI, Request
from fastapi.routing import iter_route_contexts
from gradio.utils import get_upload_folder
from starlette.routing import Mount
from starlette.types import ASGIApp

from portal.accounts.sessions import COOKIE_NAME, SignedIn
from portal.domain import Principal, Role, Scope
from portal.http.bodies import BoundedBodies
from portal.web import pages
from portal.web.guard import GuardRules, gradio_username, guard_mounted
from portal.web.headers import SecurityHeaders

TIGHT = {
    "upload_bytes_per_member": 300_000,
    "max_upload_files": 2,
    "max_call_bytes": 20_000,
    "public_origin": "https://ocr.example",
    "recheck_seconds": 0.2,
}


def _principal(tenant: str, member: str) -> Principal:
    return Principal(
        tenant_id=f"tenant-{tenant}",
        tenant_name=tenant,
        member_id=f"member-{member}",
        email=f"{member}@{tenant}.example",
        role=Role.OWNER,
        is_admin=False,
        scopes=frozenset({Scope.OCR, Scope.READ}),
    )


def _members() -> dict[str, Principal]:
    """Tokens: a and c are of one tenant, b of another; f* are fresh members for tests that spend something."""
    named = {"a": _principal("acme", "alice"), "b": _principal("bolt", "bob"), "c": _principal("acme", "carol")}
    return named | {f"f{number}": _principal("fresh", f"member{number}") for number in range(20)}


@dataclass
class SignIns:
    """Tokens and their members."""

    members: dict[str, Principal] = field(default_factory=_members)

    def resolve(self, token: str, *, address: str | None = None) -> SignedIn | None:
        who = self.members.get(token)
        if who is None:
            return None
        return SignedIn(who, csrf_token=f"csrf of {token}", expires_at=datetime.now(UTC) + timedelta(days=1))


def build() -> gr.Blocks:
    """Events of every kind: load, queued, timer tick without the queue, server function; a file in and out."""

    def email(request: gr.Request) -> str:
        principal = getattr(request.state, "principal", None)
        return str(principal.email if principal else request.username)

    def who(request: gr.Request) -> str:
        sent_cookie = dict(request.headers).get("cookie")
        return f"{email(request)}, {request.state.csrf_token}, cookie {sent_cookie}"

    def echo(path: str | None, note: str, seen: int, request: gr.Request) -> tuple[str, str | None, int]:
        content = Path(path).read_text() if path else ""
        return f"{email(request)} read {content!r} {note} {seen}", path, seen + 1

    def make(request: gr.Request) -> str:
        made = Path(get_upload_folder()) / "made.txt"
        made.write_text("a result that Gradio keeps")
        return str(made)

    def tick(request: gr.Request) -> str:
        return f"tick of {email(request)}"

    def shout(word: str) -> str:
        return str(word).upper()

    with gr.Blocks(title="Guarded") as demo:
        gr.Navbar(main_page_name="Workspace")
        gr.Markdown("# Workspace")
        loaded = gr.Textbox(label="loaded", elem_id="loaded")
        note = gr.Textbox(label="note", elem_id="note")
        document = gr.File(label="document", elem_id="document")
        seen = gr.State(0)
        run = gr.Button("Run", elem_id="run")
        said = gr.Textbox(label="said", elem_id="said")
        copied = gr.File(label="copied")
        ticked = gr.Textbox(label="ticked", elem_id="ticked")
        made = gr.File(label="made")
        gr.HTML(
            value="quiet",
            html_template="<b id='shouted'>${value}</b>",
            js_on_load="server.shout('aloud').then(text => { props.value = text })",
            server_functions=[shout],
        )
        gr.HTML(value="<img id='hostile' src='/favicon.ico' onload='document.title = \"broken in\"'>")
        demo.load(who, None, loaded, api_name="who")
        run.click(echo, [document, note, seen], [said, copied, seen], api_name="echo")
        gr.Button("Make").click(make, None, made, api_name="make")
        gr.Timer(1).tick(tick, None, ticked, queue=False, api_name="tick")
    with demo.route("History", "history"):
        gr.Navbar(main_page_name="Workspace")
        gr.Markdown("# History")
        past = gr.Textbox(label="past", elem_id="past")
        demo.load(who, None, past, api_name="who_past")
    return demo


@dataclass
class App:
    """One app ready to be served, and what a test must know of it."""

    served: ASGIApp
    fn_indices: dict[str, int]
    routes: list[list[str]]


def make_app(*, guarded: bool, rules: dict[str, Any] | None = None) -> App:
    """A FastAPI app with Gradio at its root, as the portal composes them."""
    sign_ins, demo, portal = SignIns(), build(), FastAPI(openapi_url=None)

    @portal.post("/test/end/{token}")
    def end(token: str) -> None:
        del sign_ins.members[token]

    @portal.get("/login")
    def sign_in() -> str:
        return "the sign-in page"

    def cookie_user(request: Request) -> str | None:
        who = sign_ins.members.get(request.cookies.get(COOKIE_NAME, ""))
        return None if who is None else who.label

    gr.mount_gradio_app(
        portal,
        demo,
        path="/",
        run_history=False,
        footer_links=[],
        show_error=False,
        ssr_mode=False,
        auth_dependency=gradio_username if guarded else cookie_user,
    )
    routes = _mounted_routes(portal)
    served: ASGIApp = portal
    if guarded:
        pages.install(portal)
        checked = GuardRules(
            pages=("history",), upload_dir=Path(get_upload_folder()), functions=frozenset(demo.fns), **(rules or {})
        )
        guard_mounted(portal, path="/", resolve=sign_ins.resolve, rules=checked)
        served = SecurityHeaders(BoundedBodies(portal))
    return App(served, {str(fn.api_name): index for index, fn in demo.fns.items()}, routes)


def _mounted_routes(portal: FastAPI) -> list[list[str]]:
    """[method, template] of every route of the mounted Gradio app."""
    (mount,) = [route for route in portal.routes if isinstance(route, Mount)]
    found = set()
    for context in iter_route_contexts(mount.routes):
        for method in context.methods or {"ANY"}:
            found.add((method, str(context.path)))
    return sorted([list(pair) for pair in found])


async def main() -> None:
    apps = {
        "guarded": make_app(guarded=True),
        "bare": make_app(guarded=False),
        "tight": make_app(guarded=True, rules=TIGHT),
    }
    told: dict[str, Any] = {"routes": apps["guarded"].routes, "upload_dir": get_upload_folder(), "apps": {}}
    servers = []
    for name, app in apps.items():
        listener = socket.create_server(("127.0.0.1", 0))
        told["apps"][name] = {"port": listener.getsockname()[1], "fn_indices": app.fn_indices}
        config = uvicorn.Config(app.served, log_level="warning", timeout_graceful_shutdown=1)
        servers.append(asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener])))
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*servers)


if __name__ == "__main__":
    asyncio.run(main())
