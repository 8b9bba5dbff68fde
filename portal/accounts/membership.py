"""The members of a tenant: who they are, their roles, and how one leaves.

A removed member's sessions and API keys end in the same transaction, in all processes; its work stays the tenant's
and goes on. A tenant always keeps an owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from models import ApiKey, Member, SignInSession
from models.base import now
from portal import audit
from portal.accounts import api_keys, invites, proof, sessions
from portal.accounts.authority import hold_as_owner, hold_tenant
from portal.db import Database
from portal.domain import Principal, Role
from portal.errors import Conflict, NotFound


@dataclass(frozen=True)
class MemberView:
    """A member as its tenant sees it; `browsers` and `keys` are how many sessions and API keys work now."""

    id: str
    email: str
    role: Role
    is_admin: bool
    created_at: datetime
    last_seen_at: datetime | None
    browsers: int
    keys: int


def list_members(session: Session, tenant_id: str) -> list[MemberView]:
    """The tenant's present members, owners first, then by e-mail."""
    browsers, keys = _browsers(session, tenant_id), _keys(session, tenant_id)
    rows = session.scalars(
        select(Member).where(Member.tenant_id == tenant_id, Member.removed_at.is_(None)).order_by(Member.email)
    )
    views = [_view(row, browsers.get(row.id, 0), keys.get(row.id, 0)) for row in rows]
    return sorted(views, key=lambda view: view.role is not Role.OWNER)


def find_member(session: Session, tenant_id: str, member_id: str) -> MemberView:
    """One present member of the tenant. Raises NotFound (member_unknown)."""
    found = next((view for view in list_members(session, tenant_id) if view.id == member_id), None)
    if found is None:
        raise _unknown()
    return found


def change_role(session: Session, principal: Principal, member_id: str, role: Role) -> MemberView:
    """Makes the member an owner or a plain member; an owner may do so to itself.

    A former owner's open invites end. Raises Forbidden (members_not_allowed), NotFound (member_unknown) and Conflict
    (last_owner).
    """
    hold_as_owner(session, principal)
    member = _present(session, principal.tenant_id, member_id)
    _set_role(session, principal, member, role)
    return find_member(session, principal.tenant_id, member_id)


def transfer_ownership(database: Database, principal: Principal, member_id: str, *, password: str) -> None:
    """Makes another member an owner and the caller a plain member.

    Raises as `change_role` does, Conflict (transfer_to_self), and as `proof.prove_again` for a wrong password.
    """
    if member_id == principal.member_id:
        raise Conflict("You own the tenant already.", code="transfer_to_self", remedy="Choose another member.")
    proof.prove_again(database, principal, password, browser=principal.member_id or "")
    with database.transaction() as session:
        own = hold_as_owner(session, principal)
        heir = _present(session, principal.tenant_id, member_id)
        _set_role(session, principal, heir, Role.OWNER)
        _set_role(session, principal, own, Role.MEMBER)
        _record(session, "tenant.ownership_transferred", principal, heir)


def remove_member(session: Session, principal: Principal, member_id: str) -> None:
    """Takes a member out of the tenant for an owner, who may be that member.

    Raises Forbidden (members_not_allowed), NotFound (member_unknown) and Conflict (last_owner, portal_admin).
    """
    hold_as_owner(session, principal)
    _remove(session, principal, _present(session, principal.tenant_id, member_id), "member.removed")


def leave(database: Database, principal: Principal, *, password: str) -> None:
    """Takes the caller out of its tenant.

    Raises Conflict (last_owner, portal_admin), and as `proof.prove_again` for a wrong password.
    """
    proof.prove_again(database, principal, password, browser=principal.member_id or "")
    with database.transaction() as session:
        _remove(session, principal, hold_tenant(session, principal), "member.left")


def _remove(session: Session, principal: Principal, member: Member, action: str) -> None:
    if member.is_admin:
        raise Conflict(
            "This member is the portal's admin and cannot be removed.",
            code="portal_admin",
            remedy="A new password for it: python app.py admin reset-password",
        )
    _refuse_last_owner(session, member)
    member.removed_at = now()
    session.flush()
    browsers = sessions.end_all(session, member)
    keys = api_keys.revoke_all(session, member.tenant_id, member.id)
    ended = invites.revoke_of(session, member.tenant_id, member.email)
    _record(session, action, principal, member, sessions=browsers, keys=keys, invites=ended)


def _set_role(session: Session, principal: Principal, member: Member, role: Role) -> None:
    if member.role == role:
        return
    if role is Role.MEMBER:
        _refuse_last_owner(session, member)
        invites.revoke_of(session, member.tenant_id, member.email)
    was, member.role = member.role, role.value
    session.flush()
    _record(session, "member.role_changed", principal, member, role=role.value, previous_role=was)


def _refuse_last_owner(session: Session, member: Member) -> None:
    others = session.scalar(
        select(func.count())
        .select_from(Member)
        .where(
            Member.tenant_id == member.tenant_id,
            Member.id != member.id,
            Member.role == Role.OWNER,
            Member.removed_at.is_(None),
        )
    )
    if member.role == Role.OWNER and not others:
        raise Conflict(
            "A tenant needs an owner, and this is its only one.",
            code="last_owner",
            remedy="Make another member an owner first.",
        )


def _present(session: Session, tenant_id: str, member_id: str) -> Member:
    member = session.scalars(
        select(Member)
        .where(Member.tenant_id == tenant_id, Member.id == member_id, Member.removed_at.is_(None))
        .with_for_update(key_share=True)
    ).one_or_none()
    if member is None:
        raise _unknown()
    return member


def _unknown() -> NotFound:
    return NotFound(
        "There is no such member in your tenant.", code="member_unknown", remedy="Reload the list; it may have changed."
    )


def _browsers(session: Session, tenant_id: str) -> dict[str, int]:
    rows = session.execute(
        select(SignInSession.member_id, func.count())
        .where(SignInSession.tenant_id == tenant_id, SignInSession.expires_at > now())
        .group_by(SignInSession.member_id)
    )
    return {member_id: count for member_id, count in rows}


def _keys(session: Session, tenant_id: str) -> dict[str | None, int]:
    rows = session.execute(
        select(ApiKey.member_id, func.count())
        .where(ApiKey.tenant_id == tenant_id, ApiKey.revoked_at.is_(None))
        .where(or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > now()))
        .group_by(ApiKey.member_id)
    )
    return {member_id: count for member_id, count in rows}


def _view(row: Member, browsers: int, keys: int) -> MemberView:
    return MemberView(
        id=row.id,
        email=row.email,
        role=Role(row.role),
        is_admin=row.is_admin,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
        browsers=browsers,
        keys=keys,
    )


def _record(session: Session, action: str, principal: Principal, member: Member, **details: Any) -> None:
    audit.record(
        session,
        action,
        actor=principal.label,
        tenant_id=member.tenant_id,
        target=member.id,
        address=principal.address,
        email=member.email,
        **details,
    )
