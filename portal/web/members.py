"""The Members page: who is in the tenant, invites, one's own leaving; and a page for each member.

There an owner changes its role, hands ownership over, or removes it. What a plain member may not do is not shown,
and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from portal.accounts import invites, membership
from portal.accounts.invites import CreatedInvite, InviteTerms
from portal.domain import Principal, Role
from portal.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    PortalError,
    TooManyAttempts,
    Unauthenticated,
)
from portal.http.given import PortalServices
from portal.http.ids import MemberId
from portal.services import Services
from portal.web.browsers import MemberBrowser, SignedInBrowser, forget_session
from portal.web.forms import FormState, PostedFields, check_member_form, form_page, placed

routes = APIRouter()

_BLANK = {"note": "", "days": str(invites.DEFAULT_DAYS), "role": Role.MEMBER.value}
_FIELD_OF_CODE = {"current_password_wrong": "password", "invite_days": "days", "invite_note": "note"}
_DONE = {
    "revoked": "The invite is revoked: its link opens nothing any more.",
    "removed": "The member is removed. Its browsers are signed out, and its API keys have ended.",
    "role": "The role is changed.",
    "transferred": "The ownership is handed over. You are a member now.",
}
_Refused = (Conflict, Forbidden, InvalidRequest, NotFound, TooManyAttempts, Unauthenticated)


@routes.get("/members")
def show_members(request: Request, services: PortalServices, browser: MemberBrowser, done: str = "") -> Response:
    """The list, and an owner's invites."""
    return _list_page(request, services, browser, success=_DONE.get(done))


@routes.post("/members")
def change_members(
    request: Request, services: PortalServices, browser: MemberBrowser, fields: PostedFields
) -> Response:
    """Does what the form's `action` says: invite, revoke_invite or leave."""
    principal = browser.signed_in.principal
    try:
        check_member_form(request, services, fields, browser.signed_in.csrf_token)
        match fields.get("action"):
            case "invite":
                return _list_page(request, services, browser, made=_invite(services, principal, fields))
            case "revoke_invite":
                with services.database.transaction() as session:
                    invites.revoke_invite(session, principal, fields.get("invite_id", ""))
                return RedirectResponse("/members?done=revoked", status_code=303)
            case "leave":
                membership.leave(services.database, principal, password=fields.get("password", ""))
                return _left(request, services)
    except _Refused as error:
        return _list_page(request, services, browser, form=_form(fields, error))
    raise InvalidRequest("The form does not say what to do.", remedy="Use the buttons of this page.")


@routes.get("/members/{member_id}")
def show_member(services: PortalServices, browser: MemberBrowser, member_id: MemberId) -> Response:
    """One member and what an owner may do with it."""
    return _member_page(services, browser, member_id)


@routes.post("/members/{member_id}")
def change_member(
    request: Request, services: PortalServices, browser: MemberBrowser, member_id: MemberId, fields: PostedFields
) -> Response:
    """Does what the form's `action` says: make_owner, make_member, transfer or remove."""
    act = _ACTIONS.get(fields.get("action", ""))
    if act is None:
        raise InvalidRequest("The form does not say what to do.", remedy="Use the buttons of this page.")
    try:
        check_member_form(request, services, fields, browser.signed_in.csrf_token)
        done = act(services, browser.signed_in.principal, member_id, fields)
    except NotFound:
        raise
    except _Refused as error:
        return _member_page(services, browser, member_id, _form(fields, error))
    return RedirectResponse(f"/members?done={done}", status_code=303)


def _make_owner(services: Services, principal: Principal, member_id: str, _fields: Mapping[str, str]) -> str:
    with services.database.transaction() as session:
        membership.change_role(session, principal, member_id, Role.OWNER)
    return "role"


def _make_member(services: Services, principal: Principal, member_id: str, _fields: Mapping[str, str]) -> str:
    with services.database.transaction() as session:
        membership.change_role(session, principal, member_id, Role.MEMBER)
    return "role"


def _transfer(services: Services, principal: Principal, member_id: str, fields: Mapping[str, str]) -> str:
    membership.transfer_ownership(services.database, principal, member_id, password=fields.get("password", ""))
    return "transferred"


def _remove(services: Services, principal: Principal, member_id: str, _fields: Mapping[str, str]) -> str:
    with services.database.transaction() as session:
        membership.remove_member(session, principal, member_id)
    return "removed"


_ACTIONS: Mapping[str, Callable[[Services, Principal, str, Mapping[str, str]], str]] = {
    "make_owner": _make_owner,
    "make_member": _make_member,
    "transfer": _transfer,
    "remove": _remove,
}


def _invite(services: Services, principal: Principal, fields: Mapping[str, str]) -> CreatedInvite:
    days, role = fields.get("days", ""), fields.get("role", "")
    terms = InviteTerms(
        role=Role(role) if role in tuple(Role) else Role.MEMBER,
        days=int(days) if days.isascii() and days.isdigit() and len(days) <= 3 else 0,
        note=fields.get("note", ""),
    )
    with services.database.transaction() as session:
        return invites.invite_member(session, principal, terms)


def _left(request: Request, services: Services) -> Response:
    response = RedirectResponse("/login?signed_out=1", status_code=303)
    forget_session(response, request, services)
    return response


def _form(fields: Mapping[str, str], error: PortalError) -> FormState:
    """What was typed, and the defaults where another form of the page was sent."""
    return FormState({name: fields.get(name, given) for name, given in _BLANK.items()}, placed(error, _FIELD_OF_CODE))


def _list_page(
    request: Request,
    services: Services,
    browser: SignedInBrowser,
    *,
    form: FormState | None = None,
    made: CreatedInvite | None = None,
    success: str | None = None,
) -> Response:
    principal = browser.signed_in.principal
    with services.database.reading() as session:
        members = membership.list_members(session, principal.tenant_id)
        is_owner = principal.role is Role.OWNER
        opened = invites.list_open(session, principal.tenant_id) if is_owner else []
    base_url = services.settings.server.public_url or str(request.base_url).rstrip("/")
    return _page(
        "members.html",
        browser,
        form or FormState(_BLANK),
        members=members,
        invites=opened,
        max_days=invites.MAX_DAYS,
        link=made.link(base_url) if made else None,
        success=success,
    )


def _member_page(
    services: Services, browser: SignedInBrowser, member_id: str, form: FormState | None = None
) -> Response:
    with services.database.reading() as session:
        shown = membership.find_member(session, browser.signed_in.principal.tenant_id, member_id)
    return _page("member.html", browser, form or FormState(), shown=shown)


def _page(template: str, browser: SignedInBrowser, form: FormState, **context: Any) -> Response:
    principal = browser.signed_in.principal
    return form_page(
        template,
        form,
        member=principal,
        here="members",
        is_owner=principal.role is Role.OWNER,
        csrf_token=browser.signed_in.csrf_token,
        **context,
    )
