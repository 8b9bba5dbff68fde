"""Whether an API key still stands: asked when it comes in, and again where what it asked for is written.

A request may take minutes (an upload), and its key may be revoked or expire meanwhile. What writes on behalf of a
principal calls `refuse_ended_key` first in the writing session: nothing that a key began appears after its end. What
has waited, and sends something away instead of writing it, calls `refuse_ended_caller`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import and_, bindparam, select
from sqlalchemy.orm import Session

from models import ApiKey, Member, Tenant
from models.base import now
from portal.accounts.suspension import refuse_suspended
from portal.domain import Principal
from portal.errors import Unauthenticated

_KEYS = ApiKey.__table__.c
_KEY_HELD = (  # asked at each write: built once
    select(_KEYS.revoked_at, _KEYS.expires_at)
    .where(_KEYS.tenant_id == bindparam("of_tenant"), _KEYS.id == bindparam("of_key"))
    .with_for_update(key_share=True)
)
_REMEDY = "Make a new key on the Keys page."


def refuse_ended(*, revoked_at: datetime | None, expires_at: datetime | None) -> None:
    """Raises Unauthenticated (api_key_revoked, api_key_expired) for a key that has ended."""
    if revoked_at is not None:
        raise Unauthenticated("The API key was revoked.", code="api_key_revoked", remedy=_REMEDY)
    if expires_at is not None and expires_at <= now():
        raise Unauthenticated("The API key has expired.", code="api_key_expired", remedy=_REMEDY)


def refuse_ended_key(session: Session, principal: Principal) -> None:
    """Looks again at the principal's key, and holds its row so that it does not end before this transaction does.

    For a member in a browser it is the member that must not have been removed. Raises Unauthenticated as `refuse_ended`
    does. Call it before other rows are locked but the tenant's (portal/accounts/authority.py).
    """
    if principal.api_key_id is None:
        _refuse_removed(session, principal)
        return
    own = {"of_tenant": principal.tenant_id, "of_key": principal.api_key_id}
    row = session.execute(_KEY_HELD, own).one_or_none()
    if row is not None:
        refuse_ended(revoked_at=row.revoked_at, expires_at=row.expires_at)


def refuse_ended_caller(session: Session, principal: Principal) -> None:
    """Looks again at all that let the principal in, its key, member and tenant; holds nothing.

    Raises Unauthenticated as `refuse_ended`, and when the key or the account is gone; TenantSuspended.
    """
    found = session.execute(
        select(Tenant, Member, ApiKey)
        .outerjoin(Member, and_(Member.tenant_id == Tenant.id, Member.id == principal.member_id))
        .outerjoin(ApiKey, and_(ApiKey.tenant_id == Tenant.id, ApiKey.id == principal.api_key_id))
        .where(Tenant.id == principal.tenant_id)
    ).one_or_none()
    tenant, member, key = found or (None, None, None)
    removed_at = member.removed_at if member else None
    if key is not None:
        refuse_ended(revoked_at=key.revoked_at or removed_at, expires_at=key.expires_at)
    elif principal.api_key_id is not None:
        raise Unauthenticated("The API key is gone.", code="api_key_invalid", remedy=_REMEDY)
    if tenant is None or removed_at is not None:
        raise _removed()
    refuse_suspended(tenant)


def _refuse_removed(session: Session, principal: Principal) -> None:
    removed_at = session.scalar(
        select(Member.removed_at)
        .where(Member.tenant_id == principal.tenant_id, Member.id == principal.member_id)
        .with_for_update(read=True)
    )
    if removed_at is not None:
        raise _removed()


def _removed() -> Unauthenticated:
    return Unauthenticated("This account was removed.", remedy="Ask the owner of the tenant.")
