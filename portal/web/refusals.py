"""What only the pages' side refuses, and how it tells a person's link from a script's request."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from portal.errors import PortalError


class UnsupportedMediaType(PortalError):
    """The body is of another kind than this route takes."""

    code = "unsupported_media_type"
    remedy = "Use the portal's own pages, or the API under /v1."


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
