"""Who may manage a tenant's members and invites: a present owner, asked again inside the writing transaction.

It holds the tenant's row, so that of two owners who remove or demote each other at the same moment one comes second
and finds that it may not any more. Rows are locked in this order: tenant, API key, member, sessions and keys.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import Member, Tenant
from portal.accounts.standing import refuse_ended_key
from portal.domain import Principal, Role
from portal.errors import Forbidden, Unauthenticated


def lock_tenant(session: Session, tenant_id: str) -> None:
    """Alone with what is locked under it, until the transaction ends. It comes first: it is the order of all."""
    session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))


def hold_tenant(session: Session, principal: Principal) -> Member:
    """Alone with the tenant's members until the transaction ends; gives the caller's own row.

    Raises Unauthenticated when the caller's key has ended or its member was removed.
    """
    lock_tenant(session, principal.tenant_id)
    if principal.api_key_id is not None:
        refuse_ended_key(session, principal)
    member = session.scalars(
        select(Member).where(
            Member.tenant_id == principal.tenant_id, Member.id == principal.member_id, Member.removed_at.is_(None)
        )
    ).one_or_none()
    if member is None:
        raise Unauthenticated("This account was removed.", remedy="Ask the owner of the tenant.")
    return member


def hold_as_owner(session: Session, principal: Principal) -> Member:
    """As `hold_tenant`; raises Forbidden (members_not_allowed) for who is no owner, or no longer one."""
    member = hold_tenant(session, principal)
    if member.role != Role.OWNER:
        raise Forbidden(
            "Only an owner of the tenant manages its members and invites.",
            code="members_not_allowed",
            remedy="Ask an owner; the Members page says who that is.",
        )
    return member
