"""API keys: `ocr_<prefix>_<secret>`, shown once; looked up by the public prefix, proven by HMAC with a pepper.

A key acts for its tenant with its own scopes, never with more than the member (or key) that made it had.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from models import ApiKey, Member
from models.base import now, within_calendar
from portal import audit
from portal.accounts.authority import lock_tenant
from portal.accounts.naming import MAX_NAME_LENGTH
from portal.accounts.peppers import Peppers
from portal.accounts.standing import refuse_ended_key
from portal.domain import Principal, Role, Scope
from portal.errors import Forbidden, InvalidRequest, NotFound

PREFIX_LENGTH = 10
SECRET_LENGTH = 43  # 62^43 > 2^256
_PREFIX_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class ApiKeyView:
    """A key as people see it: `prefix` is how the key begins; times are aware UTC; `created_by` an e-mail.

    `replaced_by` is the id of the key that a rotation made in its place.
    """

    id: str
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None
    revoked_at: datetime | None
    created_by: str | None
    member_id: str | None = None
    replaced_by: str | None = None


@dataclass(frozen=True)
class CreatedKey:
    """A new key with its only copy in clear; its repr does not show it."""

    view: ApiKeyView
    key: str = field(repr=False)


def create(
    session: Session,
    peppers: Peppers,
    principal: Principal,
    *,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    actor: str | None = None,
) -> CreatedKey:
    """Makes a key of the principal's tenant; the result holds the only copy in clear.

    `actor` is for the audit when somebody acts for the principal.

    Raises InvalidRequest (api_key_name, scope_unknown, scope_missing, expiry_invalid), Forbidden
    (scope_not_allowed) for a scope the principal does not have itself, and Unauthenticated when its own key has ended.
    """
    refuse_ended_key(session, principal)
    granted = _checked_scopes(principal, scopes)
    prefix = "ocr_" + _random(_PREFIX_ALPHABET, PREFIX_LENGTH)
    key = f"{prefix}_{_random(_SECRET_ALPHABET, SECRET_LENGTH)}"
    row = ApiKey(
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        name=_checked_name(name),
        prefix=prefix,
        key_hash=peppers.current.hexdigest(key),
        pepper_id=peppers.current.id,
        scopes=",".join(granted),
        expires_at=_checked_expiry(expires_at),
    )
    session.add(row)
    session.flush()
    _record(session, "api_key.created", principal, row, actor=actor, scopes=row.scopes)
    return CreatedKey(view=_view(row, principal.email), key=key)


def list_keys(session: Session, tenant_id: str) -> list[ApiKeyView]:
    """All keys of the tenant, revoked ones too, newest first."""
    rows = session.execute(_of_tenant(tenant_id).order_by(ApiKey.created_at.desc(), ApiKey.id))
    return [_view(key, email) for key, email in rows]


def own_key(session: Session, principal: Principal, key_id: str) -> ApiKeyView:
    """A key of the principal's tenant that the principal may end. Raises NotFound and Forbidden as `revoke` does."""
    return _view(*_own_row(session, principal, key_id))


def revoke(session: Session, principal: Principal, key_id: str, *, actor: str | None = None) -> ApiKeyView:
    """Revokes a key of the principal's tenant, at once and for good; revoking twice changes nothing.

    `actor` is for the audit when somebody acts for the principal.

    Raises NotFound, also for another tenant's key, Forbidden when a member revokes another member's, and
    Unauthenticated when the key that asks for another's end has ended itself.
    """
    lock_tenant(session, principal.tenant_id)
    if key_id != principal.api_key_id:
        refuse_ended_key(session, principal)
    key, email = _own_row(session, principal, key_id)
    revoked_at = session.scalars(
        update(ApiKey)
        .where(ApiKey.tenant_id == principal.tenant_id, ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
        .values(revoked_at=now())
        .returning(ApiKey.revoked_at)
    ).one_or_none()
    if revoked_at is not None:
        _record(session, "api_key.revoked", principal, key, actor=actor)
    present = session.execute(
        _of_tenant(principal.tenant_id).where(ApiKey.id == key_id).execution_options(populate_existing=True)
    ).one()
    return _view(present[0], email)


def may_end(principal: Principal, member_id: str | None) -> bool:
    """Whether the principal may revoke or replace a key of that member: its own ones, and as an owner all."""
    return principal.role is Role.OWNER or member_id == principal.member_id


def revoke_all(session: Session, tenant_id: str, member_id: str) -> int:
    """Revokes every key of the member at once; says how many there were."""
    revoked = session.scalars(
        update(ApiKey)
        .where(ApiKey.tenant_id == tenant_id, ApiKey.member_id == member_id, ApiKey.revoked_at.is_(None))
        .values(revoked_at=now())
        .returning(ApiKey.id)
    )
    return len(revoked.all())


def _own_row(session: Session, principal: Principal, key_id: str) -> tuple[ApiKey, str | None]:
    row = session.execute(_of_tenant(principal.tenant_id).where(ApiKey.id == key_id)).one_or_none()
    if row is None:
        raise NotFound("There is no such API key.", code="api_key_unknown")
    key, email = row
    if not may_end(principal, key.member_id):
        raise Forbidden(
            "This key is another member's.",
            code="api_key_of_other_member",
            remedy="Ask its member or your tenant's owner.",
        )
    return key, email


def _of_tenant(tenant_id: str) -> Select[ApiKey, str]:
    return (
        select(ApiKey, Member.email)
        .outerjoin(Member, (Member.id == ApiKey.member_id) & (Member.tenant_id == tenant_id))
        .where(ApiKey.tenant_id == tenant_id)
    )


def _checked_scopes(principal: Principal, scopes: Iterable[str]) -> tuple[Scope, ...]:
    try:
        asked = {Scope(scope) for scope in scopes}
    except ValueError:
        raise InvalidRequest(
            "An unknown scope was asked for.",
            code="scope_unknown",
            remedy=f"Choose from: {', '.join(Scope)}.",
        ) from None
    if not asked:
        raise InvalidRequest(
            "A key needs at least one scope.", code="scope_missing", remedy=f"Choose from: {', '.join(Scope)}."
        )
    _refuse_scopes_beyond(principal, asked)
    return tuple(scope for scope in Scope if scope in asked)


def _refuse_scopes_beyond(principal: Principal, asked: set[Scope]) -> None:
    beyond = asked - principal.scopes
    if Scope.ADMIN in asked and not principal.is_admin:
        beyond.add(Scope.ADMIN)
    if beyond:
        raise Forbidden(
            f"You cannot give a key what you do not have: {', '.join(sorted(beyond))}.",
            code="scope_not_allowed",
            remedy="Leave it out, or ask the portal's admin.",
        )


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidRequest(
            f"A key's name has 1 to {MAX_NAME_LENGTH} printable characters.",
            code="api_key_name",
            remedy="Name what will use the key.",
        )
    return name


def _checked_expiry(expires_at: datetime | None) -> datetime | None:
    if expires_at is not None and (expires_at.tzinfo is None or expires_at <= now()):
        raise InvalidRequest(
            "The expiry is not a moment in the future with its time zone.",
            code="expiry_invalid",
            remedy="Write it like 2030-01-31T00:00:00Z, or leave it out.",
        )
    return None if expires_at is None else within_calendar(expires_at)


def _record(
    session: Session, action: str, principal: Principal, row: ApiKey, *, actor: str | None, **details: Any
) -> None:
    audit.record(
        session,
        action,
        actor=actor or principal.label,
        tenant_id=principal.tenant_id,
        target=row.id,
        address=principal.address,
        prefix=row.prefix,
        name=row.name,
        **details,
    )


def _view(row: ApiKey, created_by: str | None) -> ApiKeyView:
    return ApiKeyView(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        scopes=parsed_scopes(row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        last_used_address=row.last_used_address,
        revoked_at=row.revoked_at,
        created_by=created_by,
        member_id=row.member_id,
        replaced_by=row.replaced_by,
    )


def parsed_scopes(scopes: str) -> tuple[Scope, ...]:
    """The scopes of a key's row."""
    return tuple(Scope(scope) for scope in scopes.split(",") if scope)


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))
