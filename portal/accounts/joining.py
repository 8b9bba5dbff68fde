"""Using an invite: what its link offers, and the account that it makes, once.

Of two people with one link, the conditional UPDATE in `join` lets one through; the other is told so. A password is
hashed only for a link that is open, so that strangers cannot make the portal work.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models import Invite, Member, Tenant
from models.base import now
from portal import audit
from portal.accounts import passwords, throttle
from portal.accounts.invites import is_open, of_tenant, token_hash
from portal.accounts.members import member_principal
from portal.accounts.naming import checked_email, checked_tenant_name, stored_address
from portal.accounts.tenants import email_taken, insert_tenant
from portal.db import Database, insert_into
from portal.domain import Principal, Role, TenantState
from portal.errors import Conflict, NotFound


@dataclass(frozen=True)
class Offer:
    """What a link is good for: a role in a tenant, or (`tenant_name` None) a tenant of one's own."""

    tenant_name: str | None
    role: Role
    invited_by: str
    expires_at: datetime


@dataclass(frozen=True)
class Newcomer:
    """Who uses a link; `tenant_name` counts only for a tenant of one's own."""

    email: str
    password: str = field(repr=False)
    tenant_name: str = ""
    address: str | None = None


@dataclass(frozen=True)
class _Found:
    invite_id: str
    tenant_id: str | None
    offer: Offer


def offer_of(database: Database, token: str, *, address: str | None) -> Offer:
    """What the link offers.

    Raises NotFound (invite_invalid), the same for a link that never was and one that was used, revoked or has
    expired; TooManyAttempts after 20 such of an address; Conflict (tenant_not_open) while its tenant is suspended.
    """
    return _open(database, token, address).offer


def join(database: Database, token: str, newcomer: Newcomer, *, time_zone: str) -> Principal:
    """Makes the account and uses the link up; gives the new member's principal (not yet signed in).

    `time_zone` is that of a tenant of one's own.

    Raises as `offer_of` does, InvalidRequest (email_invalid, password_…, tenant_name_…) and Conflict (email_taken,
    tenant_name_taken), after which the link is as good as before.
    """
    found = _open(database, token, newcomer.address)
    email = checked_email(newcomer.email)
    passwords.check_policy(newcomer.password, email)
    name = "" if found.tenant_id else checked_tenant_name(newcomer.tenant_name)
    password_hash = passwords.hashed(newcomer.password)
    with database.transaction() as session:
        tenant = _held(session, found.tenant_id) if found.tenant_id else None
        _use_up(session, found, email)
        if tenant is not None:
            principal = _insert_member(session, tenant, found.offer.role, email, password_hash)
        else:
            principal = insert_tenant(session, name=name, email=email, password_hash=password_hash, time_zone=time_zone)
        principal = replace(principal, address=stored_address(newcomer.address))
        _record(session, found, principal)
    return principal


def _open(database: Database, token: str, address: str | None) -> _Found:
    with database.transaction() as session:
        throttle.begin_invite(session, address)
        found = _find_by_token(session, token.strip())
        if found is None:
            throttle.record_invite_failure(session, address)
    if found is None:
        raise _invalid()
    return found


def _find_by_token(session: Session, token: str) -> _Found | None:
    row = session.execute(
        select(Invite, Tenant)
        .outerjoin(Tenant, Tenant.id == Invite.tenant_id)
        .where(Invite.token_hash == token_hash(token), *is_open())
    ).one_or_none()
    if row is None:
        return None
    invite, tenant = row
    if tenant is not None:
        _refuse_shut(tenant)
    offer = Offer(tenant.name if tenant else None, Role(invite.role), invite.created_by, invite.expires_at)
    return _Found(invite.id, invite.tenant_id, offer)


def _held(session: Session, tenant_id: str) -> Tenant:
    """The tenant, neither suspended nor deleted until the transaction ends: it was open before the password's hash."""
    tenant = session.scalars(select(Tenant).where(Tenant.id == tenant_id).with_for_update(read=True)).one_or_none()
    if tenant is None:
        raise _invalid()
    _refuse_shut(tenant)
    return tenant


def _refuse_shut(tenant: Tenant) -> None:
    if tenant.state == TenantState.SUSPENDED:
        raise Conflict(
            "Nobody can join this tenant at present.",
            code="tenant_not_open",
            remedy="Ask who invited you; the link stays good until it expires.",
        )


def _use_up(session: Session, found: _Found, email: str) -> None:
    used = session.scalars(
        update(Invite)
        .where(of_tenant(found.tenant_id), Invite.id == found.invite_id, *is_open())
        .values(used_at=now(), used_by=email)
        .returning(Invite.id)
    ).one_or_none()
    if used is None:
        raise _invalid()


def _insert_member(session: Session, tenant: Tenant, role: Role, email: str, password_hash: str) -> Principal:
    member = session.scalars(
        insert_into(session, Member)
        .values(tenant_id=tenant.id, email=email, password_hash=password_hash, role=role.value)
        .on_conflict_do_nothing()
        .returning(Member)
    ).one_or_none()
    if member is None:
        raise email_taken()
    return member_principal(member, tenant)


def _invalid() -> NotFound:
    return NotFound(
        "This invite link is not valid.",
        code="invite_invalid",
        remedy="It may have been used, revoked or expired: a link makes one account. Ask for a new one.",
    )


def _record(session: Session, found: _Found, principal: Principal) -> None:
    audit.record(
        session,
        "member.joined" if found.tenant_id else "tenant.created",
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=principal.member_id if found.tenant_id else principal.tenant_id,
        address=principal.address,
        invite=found.invite_id,
        invited_by=found.offer.invited_by,
        role=principal.role.value,
    )
