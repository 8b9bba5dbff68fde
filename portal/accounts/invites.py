"""Invites: links of which each makes one account, once. Only the SHA-256 of a link's 256-bit token is stored.

An owner invites into its tenant; an admin or the operator invites somebody to make a tenant of their own
(`tenant_id` None). `joining` is where they are used.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from models import Invite
from models.base import now
from portal import audit
from portal.accounts.authority import hold_as_owner
from portal.accounts.naming import stored_address
from portal.domain import Principal, Role
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound

DEFAULT_DAYS = 7
MAX_DAYS = 90
MAX_OPEN = 100
MAX_NOTE_LENGTH = 100


@dataclass(frozen=True)
class InviteTerms:
    """What an invite gives: a role in the tenant, days to use it, and a note for who made it."""

    role: Role = Role.MEMBER
    days: int = DEFAULT_DAYS
    note: str = ""


@dataclass(frozen=True)
class InviteView:
    """An open invite; `tenant_id` None invites to make a tenant. `created_by` is an e-mail or `operator`."""

    id: str
    tenant_id: str | None
    role: Role
    note: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class CreatedInvite:
    """A new invite with the only copy of its token; its repr does not show it."""

    view: InviteView
    token: str = field(repr=False)

    def link(self, base_url: str) -> str:
        """The link to hand over. The token is behind a '#': browsers send that part to no server and in no Referer."""
        return f"{base_url}/invite#{self.token}"


def invite_member(session: Session, principal: Principal, terms: InviteTerms) -> CreatedInvite:
    """An owner's invite into its tenant.

    Raises Forbidden (members_not_allowed), InvalidRequest (invite_days, invite_note) and Conflict (too_many_invites).
    """
    hold_as_owner(session, principal)
    return create(session, principal.tenant_id, terms, actor=principal.label, address=principal.address)


def invite_tenant(session: Session, principal: Principal, terms: InviteTerms) -> CreatedInvite:
    """An admin's invite to make a new tenant, whose owner the guest becomes. Raises Forbidden, and as the others."""
    _refuse_non_admin(principal)
    return create(session, None, terms, actor=principal.label, address=principal.address)


def create(
    session: Session, tenant_id: str | None, terms: InviteTerms, *, actor: str, address: str | None = None
) -> CreatedInvite:
    """An invite by who was proven to be allowed to: the operator, or the two functions above.

    Raises InvalidRequest (invite_days, invite_note) and Conflict (too_many_invites) past 100 open ones.
    """
    _check(terms)
    _refuse_too_many(session, tenant_id)
    token = secrets.token_urlsafe(32)
    present = now()
    row = Invite(
        tenant_id=tenant_id,
        token_hash=token_hash(token),
        role=(terms.role if tenant_id else Role.OWNER).value,
        note=" ".join(terms.note.split()) or None,
        created_by=actor,
        created_at=present,
        expires_at=present + timedelta(days=terms.days),
    )
    session.add(row)
    session.flush()
    audit.record(
        session,
        "invite.created",
        actor=actor,
        tenant_id=tenant_id,
        target=row.id,
        address=stored_address(address),
        role=row.role,
        days=terms.days,
    )
    return CreatedInvite(_view(row), token)


def list_open(session: Session, tenant_id: str | None) -> list[InviteView]:
    """The tenant's invites (None: those for new tenants) that can still be used, newest first."""
    rows = session.scalars(
        select(Invite).where(of_tenant(tenant_id), *is_open()).order_by(Invite.created_at.desc(), Invite.id)
    )
    return [_view(row) for row in rows]


def revoke_invite(session: Session, principal: Principal, invite_id: str) -> InviteView:
    """Ends an invite of the owner's tenant. Raises Forbidden (members_not_allowed) and NotFound (invite_unknown)."""
    hold_as_owner(session, principal)
    return revoke(session, principal.tenant_id, invite_id, actor=principal.label, address=principal.address)


def revoke_tenant_invite(session: Session, principal: Principal, invite_id: str) -> InviteView:
    """Ends an invite for a new tenant, for an admin. Raises Forbidden and NotFound (invite_unknown)."""
    _refuse_non_admin(principal)
    return revoke(session, None, invite_id, actor=principal.label, address=principal.address)


def revoke(
    session: Session, tenant_id: str | None, invite_id: str, *, actor: str, address: str | None = None
) -> InviteView:
    """Ends an open invite for who was proven to be allowed to. Raises NotFound (invite_unknown)."""
    row = session.scalars(
        update(Invite)
        .where(of_tenant(tenant_id), Invite.id == invite_id, *is_open())
        .values(revoked_at=now())
        .returning(Invite)
    ).one_or_none()
    if row is None:
        raise NotFound(
            "There is no such open invite.",
            code="invite_unknown",
            remedy="Reload the list: it may have been used, revoked or expired.",
        )
    audit.record(
        session, "invite.revoked", actor=actor, tenant_id=tenant_id, target=row.id, address=stored_address(address)
    )
    return _view(row)


def revoke_of(session: Session, tenant_id: str, email: str) -> int:
    """Ends the open invites that a former owner made: it may still hold the links. Says how many there were."""
    ended = session.scalars(
        update(Invite)
        .where(Invite.tenant_id == tenant_id, Invite.created_by == email, *is_open())
        .values(revoked_at=now())
        .returning(Invite.id)
    )
    return len(ended.all())


def token_hash(token: str) -> str:
    """How a token is stored and looked up."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def of_tenant(tenant_id: str | None) -> ColumnElement[bool]:
    """The condition that an invite is the tenant's, or for a new tenant (None)."""
    return Invite.tenant_id.is_(None) if tenant_id is None else Invite.tenant_id == tenant_id


def is_open() -> tuple[ColumnElement[bool], ...]:
    """The conditions under which an invite can be used."""
    return Invite.used_at.is_(None), Invite.revoked_at.is_(None), Invite.expires_at > now()


def _check(terms: InviteTerms) -> None:
    if not 1 <= terms.days <= MAX_DAYS:
        raise InvalidRequest(
            f"An invite lasts 1 to {MAX_DAYS} days.", code="invite_days", remedy="Choose a number of days in between."
        )
    if len(terms.note) > MAX_NOTE_LENGTH or not terms.note.isprintable():
        raise InvalidRequest(
            f"A note has at most {MAX_NOTE_LENGTH} printable characters.",
            code="invite_note",
            remedy="Shorten it, for example to the guest's name.",
        )


def _refuse_too_many(session: Session, tenant_id: str | None) -> None:
    count = session.scalar(select(func.count()).select_from(Invite).where(of_tenant(tenant_id), *is_open())) or 0
    if count >= MAX_OPEN:
        raise Conflict(
            f"There are {count} open invites already.",
            code="too_many_invites",
            remedy="Revoke those that are not needed any more.",
        )


def _refuse_non_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise Forbidden("Only the portal's admin invites new tenants.")


def _view(row: Invite) -> InviteView:
    return InviteView(
        id=row.id,
        tenant_id=row.tenant_id,
        role=Role(row.role),
        note=row.note,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
