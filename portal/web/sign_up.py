"""Signing up: /signup makes a tenant and its owner, and signs the owner in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from portal.accounts import naming, passwords, sessions, tenants
from portal.accounts.registration import RegistrationMode, registration_mode
from portal.domain import Principal
from portal.errors import Conflict, InvalidRequest, PortalError, TooManyAttempts
from portal.http.given import PortalServices
from portal.services import Services
from portal.web.browsers import Browser, CurrentBrowser, keep_known, keep_session
from portal.web.forms import (
    FormExpired,
    FormState,
    PostedFields,
    anonymous_page,
    check_anonymous_form,
    local_path,
    placed,
    typed,
)
from portal.web.rendering import render

routes = APIRouter()

FIELD_OF_CODE = {"tenant_name_taken": "tenant_name", "email_taken": "email"}


@routes.get("/signup")
def show_sign_up(
    request: Request,
    services: PortalServices,
    browser: CurrentBrowser,
    target: Annotated[str, Query(alias="next")] = "/",
) -> Response:
    """The sign-up page, or whom to ask where registration is not open; who is signed in is sent on."""
    if browser.signed_in:
        return RedirectResponse(local_path(target), status_code=303)
    mode = sign_up_mode(services)
    if mode is not RegistrationMode.OPEN:
        return _not_open(mode)
    values = {"tenant_name": "", "email": "", "next": local_path(target)}
    return anonymous_page(request, services, "signup.html", FormState(values))


@routes.post("/signup")
def sign_up(request: Request, services: PortalServices, browser: CurrentBrowser, fields: PostedFields) -> Response:
    """Makes the tenant, signs its owner in and goes to `next`; shows the page again when a field is refused."""
    mode = sign_up_mode(services)
    if mode is not RegistrationMode.OPEN:
        return _not_open(mode)
    target = local_path(fields.get("next", "/"))
    values = typed(fields, ["tenant_name", "email"]) | {"next": target}
    errors = field_errors(fields)
    try:
        check_anonymous_form(request, services, fields)
        if errors:
            return anonymous_page(request, services, "signup.html", FormState(values, errors))
        principal = _register(services, browser, fields)
    except (Conflict, InvalidRequest, TooManyAttempts, FormExpired) as error:
        return anonymous_page(request, services, "signup.html", FormState(values, placed(error, FIELD_OF_CODE)))
    response = RedirectResponse(target, status_code=303)
    keep_session(response, request, services, open_session(services, browser, principal))
    keep_known(response, request, services, principal.email or "")
    return response


def _register(services: Services, browser: Browser, fields: Mapping[str, str]) -> Principal:
    return tenants.register(
        services.database,
        RegistrationMode.OPEN,
        tenant_name=fields.get("tenant_name", ""),
        email=fields.get("email", ""),
        password=fields.get("password", ""),
        address=browser.address,
        time_zone=services.settings.accounts.time_zone,
    )


def open_session(services: Services, browser: Browser, principal: Principal) -> str:
    """Signs in who just made an account; gives the token for the cookie."""
    return sessions.open_session(
        services.database,
        principal,
        user_agent=browser.user_agent,
        days=services.settings.accounts.session_days,
    )


def sign_up_mode(services: Services) -> RegistrationMode:
    """Who may sign up now."""
    with services.database.reading() as session:
        return registration_mode(session, services.settings)[0]


def field_errors(fields: Mapping[str, str], *, makes_tenant: bool = True) -> dict[str, PortalError]:
    """Each field's own error, so that all are shown at once and not one after the other."""
    email = fields.get("email", "")
    checks: dict[str, Callable[[], object]] = {
        "email": lambda: naming.checked_email(email),
        "password": lambda: passwords.check_policy(fields.get("password", ""), email),
    }
    if makes_tenant:
        checks = {"tenant_name": lambda: naming.checked_tenant_name(fields.get("tenant_name", "")), **checks}
    errors: dict[str, PortalError] = {}
    for name, check in checks.items():
        try:
            check()
        except InvalidRequest as error:
            errors[name] = error
    return errors


def _not_open(mode: RegistrationMode) -> Response:
    return render("signup_closed.html", {"member": None, "mode": mode}, status=403)
