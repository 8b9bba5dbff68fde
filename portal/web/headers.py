"""Security headers on every answer, and the request id that ties an answer to its log lines.

An answer that sets one of these headers itself keeps its own.
"""

from __future__ import annotations

import secrets

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FIXED = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HSTS = "max-age=31536000"


def content_security_policy(*, gradio_nonce: str | None = None) -> str:
    """The policy of a page: nothing from other origins, no inline script.

    Gradio's pages name their scripts by a nonce, so that markup injected into one (an `onerror=`, a `<script>`) does
    not run. They need 'unsafe-eval', since a component's templates and event functions are made with `new Function`,
    and inline styles.
    """
    scripts, styles = "'self'", "'self'"
    if gradio_nonce is not None:
        scripts = f"'self' 'nonce-{gradio_nonce}' 'unsafe-eval'"
        styles = "'self' 'unsafe-inline'"
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            f"style-src {styles}",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "media-src 'self' blob:",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "form-action 'self'",
            "base-uri 'self'",
            "frame-ancestors 'none'",
            "object-src 'none'",
        )
    )


class SecurityHeaders:
    """Pure ASGI, outermost: `scope['state']['request_id']`, the log context, and headers on the way out.

    `is_https` says that people reach the portal by https even where the proxy in front speaks http to it.
    """

    def __init__(self, app: ASGIApp, *, is_https: bool = False) -> None:
        self._app = app
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, self._with_headers(scope, send, request_id))

    def _with_headers(self, scope: Scope, send: Send, request_id: str) -> Send:
        is_https = self._is_https or scope.get("scheme") == "https"
        may_be_private = any(name in Headers(scope=scope) for name in ("cookie", "authorization"))

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                _add(headers, is_https=is_https, may_be_private=may_be_private)
                headers["X-Request-Id"] = request_id
            await send(message)

        return add


def _add(headers: MutableHeaders, *, is_https: bool, may_be_private: bool) -> None:
    for name, value in _FIXED.items():
        headers.setdefault(name, value)
    headers.setdefault("Content-Security-Policy", content_security_policy())
    if is_https:
        headers.setdefault("Strict-Transport-Security", _HSTS)
    if may_be_private or headers.get("content-type", "").startswith("text/html"):
        headers.setdefault("Cache-Control", "no-store")
