"""Signing in and out: /login and /logout."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from portal.accounts import sessions
from portal.accounts.suspension import TenantSuspended
from portal.errors import PortalError, TooManyAttempts, Unauthenticated
from portal.http.given import PortalServices
from portal.services import Services
from portal.web.browsers import CurrentBrowser, forget_session, keep_known, keep_session, known_as
from portal.web.forms import (
    WHOLE_FORM,
    FormExpired,
    FormState,
    PostedFields,
    anonymous_page,
    check_anonymous_form,
    check_member_form,
    local_path,
    typed,
)
from portal.web.sign_up import sign_up_mode

routes = APIRouter()


@routes.get("/login")
def show_sign_in(
    request: Request,
    services: PortalServices,
    browser: CurrentBrowser,
    target: Annotated[str, Query(alias="next")] = "/",
    signed_out: str = "",
) -> Response:
    """The sign-in page; who is signed in is sent on."""
    if browser.signed_in:
        return RedirectResponse(local_path(target), status_code=303)
    form = FormState({"email": "", "next": local_path(target)})
    return _page(request, services, form, is_signed_out=bool(signed_out))


@routes.post("/login")
def sign_in(request: Request, services: PortalServices, browser: CurrentBrowser, fields: PostedFields) -> Response:
    """Signs in and goes to `next`; shows the page again with what was typed when it was wrong."""
    target = local_path(fields.get("next", "/"))
    try:
        check_anonymous_form(request, services, fields)
        token = sessions.sign_in(
            services.database,
            email=fields.get("email", ""),
            password=fields.get("password", ""),
            address=browser.address,
            user_agent=browser.user_agent,
            days=services.settings.accounts.session_days,
            known_as=known_as(request, services, fields.get("email", "")),
        )
    except (Unauthenticated, TooManyAttempts, FormExpired, TenantSuspended) as error:
        values = typed(fields, ["email"]) | {"next": target}
        return _page(request, services, FormState(values, _on_form(error)))
    response = RedirectResponse(target, status_code=303)
    keep_session(response, request, services, token)
    keep_known(response, request, services, fields.get("email", ""))
    return response


@routes.post("/logout")
def sign_out(request: Request, services: PortalServices, browser: CurrentBrowser, fields: PostedFields) -> Response:
    """Ends the session; a browser that is signed out already just gets the sign-in page."""
    if browser.signed_in:
        check_member_form(request, services, fields, browser.signed_in.csrf_token)
        sessions.sign_out(services.database, browser.token)
    response = RedirectResponse("/login?signed_out=1", status_code=303)
    forget_session(response, request, services)
    # Page images, and pages that the Back button would show: https and localhost only, which is where browsers obey.
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


def _page(request: Request, services: Services, form: FormState, *, is_signed_out: bool = False) -> Response:
    return anonymous_page(
        request, services, "login.html", form, registration=sign_up_mode(services), is_signed_out=is_signed_out
    )


def _on_form(error: PortalError) -> dict[str, PortalError]:
    return {WHOLE_FORM: error}
