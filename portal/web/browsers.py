"""What a request says of the browser behind it: who is signed in, from where; and the cookies it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from portal.accounts import known_browsers, sessions
from portal.accounts.sessions import SignedIn
from portal.errors import Unauthenticated
from portal.http.given import PortalServices
from portal.services import Services

FORM_COOKIE = "portal_form"
# The row in the database says when a session ends; the cookie only has to outlive it. Browsers cut at 400 days.
_COOKIE_SECONDS = 400 * 24 * 3600


@dataclass(frozen=True)
class Browser:
    """One request's browser. `signed_in` is None for a stranger; `token` is the session cookie as it came."""

    token: str
    signed_in: SignedIn | None
    address: str | None
    user_agent: str | None


@dataclass(frozen=True)
class SignedInBrowser:
    """A browser whose member is proven."""

    token: str
    signed_in: SignedIn


def current_browser(request: Request, services: PortalServices) -> Browser:
    """Who sent this request; a look into the database where a session cookie came."""
    address = request.client.host if request.client else None
    token = request.cookies.get(sessions.COOKIE_NAME, "")
    signed_in = sessions.resolve(services.database, token, address=address) if token else None
    return Browser(token, signed_in, address, request.headers.get("user-agent"))


CurrentBrowser = Annotated[Browser, Depends(current_browser)]


def signed_in_browser(browser: CurrentBrowser) -> SignedInBrowser:
    """The proven browser. Raises Unauthenticated, which the translator makes the way to the sign-in page."""
    if browser.signed_in is None:
        raise Unauthenticated("You are signed out.", remedy="Sign in again.")
    return SignedInBrowser(browser.token, browser.signed_in)


MemberBrowser = Annotated[SignedInBrowser, Depends(signed_in_browser)]


def keep_session(response: Response, request: Request, services: Services, token: str) -> None:
    """Gives the browser the session's cookie."""
    _set_cookie(response, request, services, (sessions.COOKIE_NAME, token), seconds=_COOKIE_SECONDS)


def forget_session(response: Response, request: Request, services: Services) -> None:
    """Takes the session's cookie away."""
    _set_cookie(response, request, services, (sessions.COOKIE_NAME, ""), seconds=0)


def known_as(request: Request, services: Services, email: str) -> str | None:
    """The id under which the account of that e-mail knows this browser, None where it does not."""
    return known_browsers.browser_id(services.peppers, request.cookies.get(known_browsers.COOKIE_NAME), email)


def keep_known(response: Response, request: Request, services: Services, email: str) -> None:
    """Marks the browser as one that has signed in to the account. Signing out leaves the mark."""
    value = known_browsers.remembered(services.peppers, request.cookies.get(known_browsers.COOKIE_NAME), email)
    _set_cookie(response, request, services, (known_browsers.COOKIE_NAME, value), seconds=_COOKIE_SECONDS)


def keep_form_cookie(response: Response, request: Request, services: Services, value: str) -> None:
    """Gives a stranger's browser the cookie that its forms are tied to, until it is closed."""
    _set_cookie(response, request, services, (FORM_COOKIE, value), seconds=None)


def _set_cookie(
    response: Response, request: Request, services: Services, cookie: tuple[str, str], *, seconds: int | None
) -> None:
    name, value = cookie
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path="/",
        secure=_is_https(request, services),
        httponly=True,
        samesite="lax",
    )


def _is_https(request: Request, services: Services) -> bool:
    public_url = services.settings.server.public_url
    return request.url.scheme == "https" or (public_url or "").startswith("https://")
