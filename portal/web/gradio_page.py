"""What the guard changes in Gradio's answers: no CORS, its own cache rules, a nonce on each script of a page."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

from markupsafe import Markup
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

from portal.web.headers import content_security_policy

_YEAR = "public, max-age=31536000, immutable"
_HOUR = "public, max-age=3600"
# What Gradio writes for other sites' previews: its own name and pictures at its own address.
_FOREIGN = re.compile(rb'<meta\s+(?:property="og:|name="twitter:)[^<>]*>\s*')

_CONFIGURED_TITLE = re.compile(rb'"title":"[^"\\]*"')


class HeldAnswer:
    """Keeps a short answer of Gradio back until the guard has read it."""

    def __init__(self) -> None:
        self.start: Message = {}
        self.body = b""

    async def send(self, message: Message) -> None:
        """The send channel to give to Gradio."""
        if message["type"] == "http.response.start":
            self.start = message
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    @property
    def status(self) -> int:
        """The answer's status; 0 when there was none."""
        return int(self.start.get("status", 0))

    def json(self) -> Any:
        """The body of a successful answer, parsed; None for any other answer."""
        return json.loads(self.body) if self.status == 200 else None

    async def release(self, send: Send) -> None:
        """Sends the answer on, with `body` as it now is."""
        if not self.start:
            return
        headers = MutableHeaders(raw=self.start["headers"])
        headers["Content-Length"] = str(len(self.body))
        await send(self.start)
        await send({"type": "http.response.body", "body": self.body})

    def dress(self, head: str = "", *, title: str | None = None) -> None:
        """Makes an HTML page ours: `head` first, Gradio's cards for other sites out, a nonce on each script.

        `title` is the page's own: as such, and in the configuration, from which Gradio's script sets it anew.

        The policy admits only those scripts. Gradio's template escapes '<' in all values it writes into the page, so
        each '<script' is the template's own, or of `head`.
        """
        headers = MutableHeaders(raw=self.start["headers"])
        if not headers.get("content-type", "").startswith("text/html"):
            return
        if title is not None:
            head = str(Markup("<title>{}</title>").format(title)) + head
            named = b'"title":' + json.dumps(title).encode()
            self.body = _CONFIGURED_TITLE.sub(lambda _: named, self.body, count=1)
        self.body = _FOREIGN.sub(b"", self.body).replace(b"<head>", b"<head>" + head.encode(), 1)
        nonce = secrets.token_urlsafe(16)
        self.body = self.body.replace(b"<script", f'<script nonce="{nonce}"'.encode())
        headers["Content-Security-Policy"] = content_security_policy(gradio_nonce=nonce)


def private_answer(send: Send) -> Send:
    """A send channel that takes CORS headers off and forbids storing."""
    return _edited(send, "no-store")


def public_answer(send: Send, path: str) -> Send:
    """A send channel for Gradio's own bundle, whose file names under /assets/ carry a hash of their content."""
    return _edited(send, _YEAR if path.startswith("/assets/") else _HOUR)


def _edited(send: Send, cache_control: str) -> Send:
    async def edit(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            for name in [name for name in headers if name.startswith("access-control-")]:
                del headers[name]
            is_found = message["status"] < 400
            headers["Cache-Control"] = cache_control if is_found else "no-store"
        await send(message)

    return edit
