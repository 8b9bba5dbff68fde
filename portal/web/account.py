"""The account page: who is signed in, changing the password, signing other browsers out."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from portal.accounts import sessions
from portal.errors import Conflict, InvalidRequest, TooManyAttempts, Unauthenticated
from portal.http.given import PortalServices
from portal.services import Services
from portal.web.browsers import MemberBrowser, SignedInBrowser
from portal.web.forms import FormExpired, FormState, PostedFields, check_member_form, form_page, placed

routes = APIRouter()

_FIELD_OF_CODE = {
    "current_password_wrong": "current_password",
    "password_too_short": "new_password",
    "password_too_long": "new_password",
    "password_is_email": "new_password",
    "password_unchanged": "new_password",
}
_DONE = {
    "password": "Your password is changed, and your other browsers are signed out.",
    "others": "Your other browsers are signed out.",
}


@routes.get("/account")
def show_account(services: PortalServices, browser: MemberBrowser, done: str = "") -> Response:
    """E-mail, tenant and role, and the forms."""
    return _page(services, browser, FormState(), success=_DONE.get(done))


@routes.post("/account")
def change_account(
    request: Request, services: PortalServices, browser: MemberBrowser, fields: PostedFields
) -> Response:
    """Does what the form's `action` says: change_password or sign_out_others."""
    try:
        check_member_form(request, services, fields, browser.signed_in.csrf_token)
        done = _act(services, browser, fields)
    except (InvalidRequest, Unauthenticated, Conflict, TooManyAttempts, FormExpired) as error:
        return _page(services, browser, FormState(errors=placed(error, _FIELD_OF_CODE)))
    return RedirectResponse(f"/account?done={done}", status_code=303)


def _act(services: Services, browser: SignedInBrowser, fields: Mapping[str, str]) -> str:
    principal = browser.signed_in.principal
    match fields.get("action"):
        case "sign_out_others":
            sessions.sign_out_others(services.database, principal, browser.token)
            return "others"
        case "change_password":
            sessions.change_password(
                services.database,
                principal,
                browser.token,
                current_password=fields.get("current_password", ""),
                new_password=fields.get("new_password", ""),
            )
            return "password"
    raise InvalidRequest("The form does not say what to do.", remedy="Use the buttons of this page.")


def _page(services: Services, browser: SignedInBrowser, form: FormState, *, success: str | None = None) -> Response:
    principal = browser.signed_in.principal
    return form_page(
        "account.html",
        form,
        member=principal,
        here="account",
        csrf_token=browser.signed_in.csrf_token,
        other_browsers=sessions.count_others(services.database, principal, browser.token),
        success=success,
    )
