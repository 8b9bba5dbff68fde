"""/v1/members and /v1/invites: who is in the key's tenant, and links for who is to join.

Changes need the scope `members`, which only an owner can give, and that the key's member still is an owner: a key
that submits scans, where it leaks, lets nobody in and puts nobody out.
"""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request, Response, status
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from portal.accounts import invites, membership
from portal.accounts.authority import hold_as_owner
from portal.accounts.invites import CreatedInvite, InviteTerms, InviteView
from portal.accounts.membership import MemberView
from portal.api import contract
from portal.api.access import MemberManager, Reader
from portal.api.body import Body
from portal.api.problems import ProblemRoute
from portal.domain import Role
from portal.http.given import PortalServices
from portal.http.ids import InviteId, MemberId

routes = APIRouter(prefix="/v1/members", tags=["Members"], route_class=ProblemRoute)
invite_routes = APIRouter(prefix="/v1/invites", tags=["Members"], route_class=ProblemRoute)


class ListedMemberBody(Body):
    """A member of the tenant."""

    id: str
    email: str
    role: Role
    created_at: datetime
    last_seen_at: datetime | None = Field(description="The last use of a browser; null when there was none")
    browsers: int = Field(description="How many browsers are signed in")
    keys: int = Field(description="How many API keys work")


class MembersBody(Body):
    """All members, owners first."""

    data: list[ListedMemberBody]


class InviteBody(Body):
    """An invite that can still be used. Its link was shown when it was made, and never again."""

    id: str
    role: Role
    note: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime


class CreatedInviteBody(InviteBody):
    """A new invite with its link."""

    link: str = Field(description="Makes one account; shown in this answer only")


class InvitesBody(Body):
    """The open invites, newest first."""

    data: list[InviteBody]


class RoleOrder(BaseModel):
    """The role that a member is to have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role


class InviteOrder(BaseModel):
    """An invite that is to be made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role = Role.MEMBER
    days: int = Field(default=invites.DEFAULT_DAYS, ge=1, le=invites.MAX_DAYS, description="How long it can be used")
    note: str = Field(default="", max_length=invites.MAX_NOTE_LENGTH, description="Whom it is for; owners see it")


@routes.get("", summary="List members", responses=contract.reading())
def list_members(services: PortalServices, principal: Reader) -> MembersBody:
    """Your tenant's members, with when each was last seen in a browser."""
    with services.database.reading() as session:
        return MembersBody(data=[_member(view) for view in membership.list_members(session, principal.tenant_id)])


@routes.patch(
    "/{member_id}",
    summary="Change a member's role",
    responses=contract.managing_members("malformed_body", "invalid_request", "member_unknown", "last_owner"),
)
async def change_member(
    services: PortalServices, principal: MemberManager, member_id: MemberId, order: RoleOrder
) -> ListedMemberBody:
    """Makes a member an owner, or an owner a plain member. A tenant keeps at least one owner."""

    def change() -> MemberView:
        with services.database.transaction() as session:
            return membership.change_role(session, principal, member_id, order.role)

    return _member(await run_in_threadpool(change))


@routes.delete(
    "/{member_id}",
    status_code=status.HTTP_204_NO_CONTENT,
    summary="Remove a member",
    responses=contract.managing_members("invalid_request", "member_unknown", "last_owner", "portal_admin"),
)
def remove_member(services: PortalServices, principal: MemberManager, member_id: MemberId) -> None:
    """Takes a member out of the tenant: its browsers and keys end at once, its documents stay and its work goes on."""
    with services.database.transaction() as session:
        membership.remove_member(session, principal, member_id)


@invite_routes.get("", summary="List open invites", responses=contract.managing_members())
def list_invites(services: PortalServices, principal: MemberManager) -> InvitesBody:
    """Invites that were neither used nor revoked and have not expired, without their links."""
    with services.database.transaction() as session:
        hold_as_owner(session, principal)
        return InvitesBody(data=[_invite(view) for view in invites.list_open(session, principal.tenant_id)])


@invite_routes.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Make an invite",
    responses=contract.managing_members("malformed_body", "invalid_request", "invite_note", "too_many_invites"),
)
async def create_invite(
    request: Request, services: PortalServices, principal: MemberManager, order: InviteOrder, response: Response
) -> CreatedInviteBody:
    """Makes a link for one person, who chooses an e-mail and a password. The link is shown in this answer only."""

    def create() -> CreatedInvite:
        with services.database.transaction() as session:
            return invites.invite_member(session, principal, InviteTerms(order.role, order.days, order.note))

    made = await run_in_threadpool(create)
    response.headers["Cache-Control"] = "no-store"
    base_url = services.settings.server.public_url or str(request.base_url).rstrip("/")
    return CreatedInviteBody(**_invite(made.view).model_dump(), link=made.link(base_url))


@invite_routes.delete(
    "/{invite_id}",
    summary="Revoke an invite",
    responses=contract.managing_members("invalid_request", "invite_unknown"),
)
def revoke_invite(services: PortalServices, principal: MemberManager, invite_id: InviteId) -> InviteBody:
    """Ends an open invite at once: its link opens nothing any more."""
    with services.database.transaction() as session:
        return _invite(invites.revoke_invite(session, principal, invite_id))


def _member(view: MemberView) -> ListedMemberBody:
    return ListedMemberBody.model_validate(view)


def _invite(view: InviteView) -> InviteBody:
    return InviteBody.model_validate(view)
