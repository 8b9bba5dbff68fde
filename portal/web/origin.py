"""Does a request come from the portal's own pages? Asked before anything that changes or tells something."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from portal.errors import Forbidden

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class ForeignOrigin(Forbidden):
    """The request was made by a page of another origin, or does not say by whom."""

    code = "foreign_origin"
    remedy = (
        "Use the portal's own pages. Behind a proxy, set PORTAL_PUBLIC_URL to the address that people see, "
        "or use the API under /v1 from programs."
    )


def own_origin(scope: Scope, public_origin: str | None) -> str:
    """'https://host[:port]' as browsers name the portal: the configured one, else this request's scheme and host."""
    if public_origin is not None:
        return public_origin.lower()
    return f"{scope.get('scheme', 'http')}://{Headers(scope=scope).get('host', '')}".lower()


def check_origin(scope: Scope, public_origin: str | None) -> None:
    """Raises ForeignOrigin unless the request is known to come from our own pages.

    Browsers send Sec-Fetch-Site to secure origins and Origin with every unsafe request (Fetch standard, 3.2 and
    8.2), so an unsafe request with neither is refused. A safe one may come without, but not from elsewhere.
    """
    headers = Headers(scope=scope)
    origins, site = headers.getlist("origin"), headers.get("sec-fetch-site")
    if len(origins) > 1 or site in ("cross-site", "same-site"):
        raise _foreign()
    if origins:
        is_ours = origins[0].lower() == own_origin(scope, public_origin)
        # A proxy that ends TLS hides the scheme from us, not from the browser, which compared for itself.
        if not is_ours and not (public_origin is None and site == "same-origin"):
            raise _foreign()
    elif site not in ("same-origin", "none") and scope["method"] not in SAFE_METHODS:
        raise _foreign()


def is_own_url(url: str, scope: Scope, public_origin: str | None) -> bool:
    """True for a relative URL and for one of our own host."""
    parts = urlsplit(url)
    if not parts.netloc and not parts.scheme:
        return True
    hosts = {urlsplit(own_origin(scope, public_origin)).netloc, Headers(scope=scope).get("host", "").lower()}
    return parts.scheme in ("http", "https") and parts.netloc.lower() in hosts


def _foreign() -> ForeignOrigin:
    return ForeignOrigin("This request was not made by a page of the portal.")
