"""Who may sign up: anybody, who holds an invite, or nobody but by the admin.

PORTAL_REGISTRATION fixes it; where that is not set, it is what an admin chose on the Admin page, at first `open`.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy.orm import Session

from models import PortalOption
from models.base import now
from portal import audit
from portal.audit import Actor, Outcome
from portal.db import insert_into
from portal.domain import Principal
from portal.errors import Conflict, Forbidden
from portal.settings import Settings

_OPTION = "registration"


class RegistrationMode(StrEnum):
    """Who makes new tenants. An invite works in each of them: an owner or an admin gave it."""

    OPEN = "open"
    INVITE = "invite"
    CLOSED = "closed"


def registration_mode(session: Session, settings: Settings) -> tuple[RegistrationMode, bool]:
    """The mode in force, and whether the environment fixes it."""
    fixed = settings.accounts.registration
    if fixed is not None:
        return RegistrationMode(fixed), True
    chosen = session.get(PortalOption, _OPTION)
    return RegistrationMode(chosen.value) if chosen else RegistrationMode.OPEN, False


def set_registration_mode(session: Session, settings: Settings, actor: Actor, mode: RegistrationMode) -> None:
    """Chooses the mode for the whole portal. Raises Forbidden (not an admin) and Conflict (registration_fixed)."""
    if isinstance(actor, Principal) and not actor.is_admin:
        raise Forbidden("Only the portal's admin chooses who may sign up.")
    before, is_fixed = registration_mode(session, settings)
    if is_fixed:
        raise Conflict(
            f"The operator fixed this: PORTAL_REGISTRATION is '{before}'.",
            code="registration_fixed",
            remedy="Ask the operator to unset PORTAL_REGISTRATION and restart; then it is chosen here.",
        )
    values = {"value": mode.value, "set_by": audit.label_of(actor), "set_at": now()}
    session.execute(
        insert_into(session, PortalOption)
        .values(name=_OPTION, **values)
        .on_conflict_do_update(index_elements=[PortalOption.name], set_=values)
    )
    audit.record(
        session,
        "portal.registration_changed",
        actor=actor,
        tenant_id=actor.tenant_id if isinstance(actor, Principal) else None,
        outcome=Outcome(before={"mode": before.value}, after={"mode": mode.value}),
    )


def refuse_sign_up(mode: RegistrationMode) -> None:
    """Raises Forbidden (registration_closed, invite_needed) unless anybody may sign up."""
    if mode == RegistrationMode.CLOSED:
        raise Forbidden(
            "New tenants are made by the portal's admin only.",
            code="registration_closed",
            remedy="Ask the portal's admin for an account.",
        )
    if mode == RegistrationMode.INVITE:
        raise Forbidden(
            "New tenants need an invite.",
            code="invite_needed",
            remedy="Open the invite link that you were given, or ask the portal's admin for one.",
        )
