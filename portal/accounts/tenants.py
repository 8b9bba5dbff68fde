"""Tenants and their first member: sign-up, the admin of the first start, and password resets by the operator.

Unique constraints decide races: of two sign-ups with one name or e-mail, one gets a Conflict that says which.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import Member, Tenant
from models.base import now
from portal import audit
from portal.accounts import passwords, sessions, throttle
from portal.accounts.members import find_by_email, member_principal, with_tenant
from portal.accounts.naming import (
    ADMIN_TENANT,
    checked_email,
    checked_tenant_name,
    normalised_email,
    stored_address,
)
from portal.accounts.registration import RegistrationMode, refuse_sign_up
from portal.audit import Actor
from portal.db import Database, insert_into
from portal.domain import Principal, Role
from portal.errors import Conflict, InvalidRequest, NotFound, SettingsError
from portal.settings import Settings

OPERATOR = "operator"


def register(
    database: Database,
    registration: RegistrationMode,
    *,
    tenant_name: str,
    email: str,
    password: str,
    address: str | None,
    time_zone: str,
) -> Principal:
    """Signs up a new tenant with its owner; gives the owner's principal (not yet signed in).

    Raises Forbidden (registration_closed, invite_needed), InvalidRequest (tenant_name_…, email_invalid, password_…),
    Conflict (tenant_name_taken, email_taken) and TooManyAttempts after 60 sign-ups of an address within an hour.
    """
    refuse_sign_up(registration)
    name, email = checked_tenant_name(tenant_name), checked_email(email)
    passwords.check_policy(password, email)
    with database.transaction() as session:
        throttle.begin_sign_up(session, address)
    password_hash = passwords.hashed(password)
    with database.transaction() as session:
        principal = insert_tenant(session, name=name, email=email, password_hash=password_hash, time_zone=time_zone)
        _record_creation(session, principal, actor=email, address=address)
    return replace(principal, address=stored_address(address))


def create_tenant(
    session: Session,
    *,
    name: str,
    email: str,
    password_hash: str,
    time_zone: str,
    actor: Actor = OPERATOR,
) -> Principal:
    """Makes a tenant and its owner for the operator or an admin; gives the owner's principal.

    `password_hash` comes from `passwords.hashed`, called before the transaction. Raises InvalidRequest
    (tenant_name_…, email_invalid) and Conflict (tenant_name_taken, email_taken).
    """
    name, email = checked_tenant_name(name), checked_email(email)
    principal = insert_tenant(session, name=name, email=email, password_hash=password_hash, time_zone=time_zone)
    _record_creation(session, principal, actor=actor, address=None)
    return principal


def ensure_admin(database: Database, settings: Settings) -> str | None:
    """Makes the tenant `admin` and its member at the first start, from PORTAL_ADMIN_EMAIL and _PASSWORD.

    Gives the one-time password when none was set and this call made the admin, else None. Later changes of
    the two settings change nothing: a password is changed on the account page or by reset-password. Raises
    SettingsError when the settings are no e-mail or no acceptable password.
    """
    if _has_admin(database):
        return None
    given = settings.accounts.admin_password
    password = given.get_secret_value() if given else passwords.one_time_password()
    email = _checked_admin(settings.accounts.admin_email, password)
    password_hash = passwords.hashed(password)
    try:
        with database.transaction() as session:
            principal = insert_tenant(
                session,
                name=ADMIN_TENANT,
                email=email,
                password_hash=password_hash,
                is_admin=True,
                time_zone=settings.accounts.time_zone,
            )
            audit.record(session, "admin.created", actor="first start", tenant_id=principal.tenant_id, target=email)
    except Conflict:
        if _has_admin(database):
            return None
        raise
    return None if given else password


def reset_password(database: Database, email: str, *, password: str | None = None) -> str:
    """Sets a one-time password (or the given one), ends all sessions of the member; gives the password.

    Raises NotFound for an unknown e-mail and InvalidRequest (password_…): the caller is the operator.
    """
    email = normalised_email(email)
    password = password if password is not None else passwords.one_time_password()
    passwords.check_policy(password, email)
    password_hash = passwords.hashed(password)
    with database.transaction() as session:
        row = find_by_email(session, email)
        if row is None:
            raise NotFound(f"No member has the e-mail {email}.", code="member_unknown", remedy="Check the spelling.")
        member = row[0]
        member.password_hash, member.password_changed_at = password_hash, now()
        session.flush()
        sessions.end_all(session, member)
        throttle.clear_account(session, email)
        audit.record(session, "member.password_reset", actor=OPERATOR, tenant_id=member.tenant_id, target=member.id)
    return password


def owner_of(session: Session, tenant_name: str) -> Principal:
    """The principal of a tenant's first owner, for whom the operator acts. Raises NotFound."""
    row = session.execute(
        with_tenant()
        .where(Tenant.name == " ".join(tenant_name.split()), Member.role == Role.OWNER)
        .order_by(Member.created_at, Member.id)
        .limit(1)
    ).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no tenant named {tenant_name}.",
            code="tenant_unknown",
            remedy="List them with: python app.py admin list-tenants",
        )
    return member_principal(row[0], row[1])


def insert_tenant(
    session: Session, *, name: str, email: str, password_hash: str, time_zone: str, is_admin: bool = False
) -> Principal:
    """The rows of a tenant and its owner, and nothing else. Raises Conflict (tenant_name_taken, email_taken)."""
    tenant = session.scalars(
        insert_into(session, Tenant).values(name=name, time_zone=time_zone).on_conflict_do_nothing().returning(Tenant)
    ).one_or_none()
    if tenant is None:
        raise Conflict(
            "A tenant with this name exists.",
            code="tenant_name_taken",
            remedy="Choose another name, or ask a colleague who signed up for it.",
        )
    member = session.scalars(
        insert_into(session, Member)
        .values(
            tenant_id=tenant.id,
            email=email,
            password_hash=password_hash,
            role=Role.OWNER.value,
            is_admin=is_admin,
        )
        .on_conflict_do_nothing()
        .returning(Member)
    ).one_or_none()
    if member is None:
        raise email_taken()
    return member_principal(member, tenant)


def email_taken() -> Conflict:
    """The refusal of an e-mail that a present member has, whichever tenant it is of."""
    return Conflict("This e-mail has an account.", code="email_taken", remedy="Sign in with it, or use another e-mail.")


def _record_creation(session: Session, principal: Principal, *, actor: Actor, address: str | None) -> None:
    audit.record(
        session,
        "tenant.created",
        actor=actor,
        tenant_id=principal.tenant_id,
        target=principal.tenant_id,
        address=stored_address(address),
        name=principal.tenant_name,
        owner=principal.email,
    )


def _has_admin(database: Database) -> bool:
    with database.reading() as session:
        return session.scalar(select(Member.id).where(Member.is_admin).limit(1)) is not None


def _checked_admin(email: str, password: str) -> str:
    try:
        checked = checked_email(email)
    except InvalidRequest as error:
        raise SettingsError(f"PORTAL_ADMIN_EMAIL: {error.message}", remedy=error.remedy) from error
    try:
        passwords.check_policy(password, checked)
    except InvalidRequest as error:
        raise SettingsError(f"PORTAL_ADMIN_PASSWORD: {error.message}", remedy=error.remedy) from error
    return checked
