"""The page of an invite link: /invite, whose token stands behind a '#' and comes in a form's body only.

So it is in no server's log, no Referer, and no address that a proxy keeps. Without JavaScript the link is pasted.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from portal.accounts.joining import Newcomer, Offer, join, offer_of
from portal.domain import Principal
from portal.errors import Conflict, InvalidRequest, NotFound, PortalError, TooManyAttempts
from portal.http.given import PortalServices
from portal.services import Services
from portal.web.browsers import Browser, CurrentBrowser, keep_known, keep_session
from portal.web.forms import (
    WHOLE_FORM,
    FormExpired,
    FormState,
    PostedFields,
    anonymous_page,
    check_anonymous_form,
    form_page,
    placed,
    typed,
)
from portal.web.sign_up import FIELD_OF_CODE, field_errors, open_session

routes = APIRouter()

_Refused = (NotFound, Conflict, InvalidRequest, TooManyAttempts, FormExpired)


@routes.get("/invite")
def show_invite(request: Request, services: PortalServices, browser: CurrentBrowser) -> Response:
    """Where a link is opened or pasted; who is signed in is told to sign out first."""
    if browser.signed_in:
        signed_in = browser.signed_in
        return form_page(
            "invite.html", FormState(), member=signed_in.principal, csrf_token=signed_in.csrf_token, offer=None
        )
    return _asking(request, services)


@routes.post("/invite")
def use_invite(request: Request, services: PortalServices, browser: CurrentBrowser, fields: PostedFields) -> Response:
    """Shows what the link offers; with `action=join`, makes the account and signs it in."""
    if browser.signed_in:
        return RedirectResponse("/invite", status_code=303)
    token = _token_of(fields.get("token", ""))
    try:
        check_anonymous_form(request, services, fields)
        offer = offer_of(services.database, token, address=browser.address)
    except _Refused as error:
        return _asking(request, services, error)
    if fields.get("action") != "join":
        return _offering(request, services, offer, FormState({"tenant_name": "", "email": "", "token": token}))
    return _join(request, services, browser, fields, offer)


def _join(request: Request, services: Services, browser: Browser, fields: Mapping[str, str], offer: Offer) -> Response:
    values = typed(fields, ["tenant_name", "email", "token"])
    errors = field_errors(fields, makes_tenant=offer.tenant_name is None)
    if errors:
        return _offering(request, services, offer, FormState(values, errors))
    try:
        principal = _joined(services, browser, fields)
    except NotFound as error:  # somebody else was faster
        return _asking(request, services, error)
    except _Refused as error:
        return _offering(request, services, offer, FormState(values, placed(error, FIELD_OF_CODE)))
    response = RedirectResponse("/", status_code=303)
    keep_session(response, request, services, open_session(services, browser, principal))
    keep_known(response, request, services, principal.email or "")
    return response


def _joined(services: Services, browser: Browser, fields: Mapping[str, str]) -> Principal:
    newcomer = Newcomer(
        email=fields.get("email", ""),
        password=fields.get("password", ""),
        tenant_name=fields.get("tenant_name", ""),
        address=browser.address,
    )
    zone = services.settings.accounts.time_zone
    return join(services.database, fields.get("token", ""), newcomer, time_zone=zone)


def _token_of(pasted: str) -> str:
    """The token of a link, or a token alone."""
    return pasted.rpartition("#")[2].strip()


def _asking(request: Request, services: Services, error: PortalError | None = None) -> Response:
    form = FormState({"token": ""}, {WHOLE_FORM: error} if error else {})
    return anonymous_page(request, services, "invite.html", form, offer=None)


def _offering(request: Request, services: Services, offer: Offer, form: FormState) -> Response:
    return anonymous_page(request, services, "invite.html", form, offer=offer)
