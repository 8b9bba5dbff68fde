"""Suspending a tenant and letting it work again, for the portal's admin; the caller proves that it is one.

`no_new_jobs` leaves sign-in, keys, results and exports as they are. `suspended` ends every session at once, and no
key works; neither the keys nor anything stored is lost, so that `resume` brings all of it back but the sessions.
"""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from models import Member, SignInSession, Tenant
from portal import audit
from portal.accounts.naming import ADMIN_TENANT, stored_address
from portal.audit import REFUSED, Outcome
from portal.domain import TenantState
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound
from portal.wording import as_sentence

MAX_REASON_LENGTH = 300


class TenantSuspended(Forbidden):
    """The admin suspended the caller's tenant; nothing was stored or charged."""

    code = "tenant_suspended"
    remedy = "Ask the portal's admin. Your documents and results are kept."


class HasState(Protocol):
    """What is looked at of a tenant: its row, or a part of it."""

    @property
    def state(self) -> str:
        """A `TenantState`."""

    @property
    def state_reason(self) -> str | None:
        """The admin's reason."""


def refuse_suspended(tenant: HasState) -> None:
    """Raises TenantSuspended with the admin's reason for a tenant in which nobody signs in and no key works."""
    if tenant.state == TenantState.SUSPENDED:
        reason = f" The admin's reason: {as_sentence(tenant.state_reason)}" if tenant.state_reason else ""
        raise TenantSuspended(f"Your tenant is suspended.{reason}")


def refusal_of(session: Session, member: Member, address: str | None) -> TenantSuspended | None:
    """What a member with the right password is told when its tenant is suspended, which is audited; else None."""
    try:
        refuse_suspended(session.get_one(Tenant, member.tenant_id))
    except TenantSuspended as refusal:
        audit.record(
            session,
            "member.sign_in_refused",
            actor=member.email,
            tenant_id=member.tenant_id,
            target=member.id,
            address=stored_address(address),
            outcome=REFUSED,
            code=refusal.code,
        )
        return refusal
    return None


def suspend(
    session: Session,
    tenant_id: str,
    *,
    state: TenantState,
    reason: str,
    actor: str,
    address: str | None = None,
) -> int:
    """Puts the tenant into `no_new_jobs` or `suspended`; gives how many sessions that ended.

    `reason` (1 to 300 characters) is shown to the tenant. Raises NotFound (tenant_unknown), Conflict
    (admin_tenant) for the portal's own tenant, and InvalidRequest (reason_invalid, state_invalid).
    """
    if state is TenantState.ACTIVE:
        raise InvalidRequest("A suspension is no_new_jobs or suspended.", code="state_invalid", remedy="Choose one.")
    tenant = _held(session, tenant_id)
    if tenant.name == ADMIN_TENANT:
        raise Conflict(
            "The portal's own tenant cannot be suspended.",
            code="admin_tenant",
            remedy="Its members operate the portal; remove one on the Members page instead.",
        )
    _change(session, tenant, state, _checked_reason(reason), actor=actor, address=address)
    return _end_sessions(session, tenant_id) if state is TenantState.SUSPENDED else 0


def resume(session: Session, tenant_id: str, *, actor: str, address: str | None = None) -> None:
    """Lets the tenant work again; does nothing when it may. Raises NotFound (tenant_unknown)."""
    tenant = _held(session, tenant_id)
    if tenant.state != TenantState.ACTIVE:
        _change(session, tenant, TenantState.ACTIVE, None, actor=actor, address=address)


def _held(session: Session, tenant_id: str) -> Tenant:
    tenant = session.scalars(select(Tenant).where(Tenant.id == tenant_id).with_for_update(key_share=True)).one_or_none()
    if tenant is None:
        raise NotFound("There is no such tenant.", code="tenant_unknown", remedy="Check the name or id.")
    return tenant


def _change(
    session: Session, tenant: Tenant, state: TenantState, reason: str | None, *, actor: str, address: str | None
) -> None:
    was, was_reason = tenant.state, tenant.state_reason
    tenant.state, tenant.state_reason = state.value, reason
    audit.record(
        session,
        "tenant.resumed" if state is TenantState.ACTIVE else "tenant.suspended",
        actor=actor,
        tenant_id=tenant.id,
        target=tenant.id,
        address=stored_address(address),
        outcome=Outcome(before={"state": was, "reason": was_reason}, after={"state": state.value, "reason": reason}),
    )


def _end_sessions(session: Session, tenant_id: str) -> int:
    ended = session.scalars(
        delete(SignInSession).where(SignInSession.tenant_id == tenant_id).returning(SignInSession.token_hash)
    )
    return len(ended.all())


def _checked_reason(reason: str) -> str:
    reason = " ".join(reason.split())
    if not 1 <= len(reason) <= MAX_REASON_LENGTH or not reason.isprintable():
        raise InvalidRequest(
            f"A reason has 1 to {MAX_REASON_LENGTH} printable characters.",
            code="reason_invalid",
            remedy="Say in a sentence why, and what would end it: the tenant's members read it.",
        )
    return reason
