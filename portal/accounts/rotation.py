"""A key's replacement: a new key in the old one's place, the old one valid for a chosen time, so that nothing stops."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import update
from sqlalchemy.orm import Session

from models import ApiKey
from models.base import now
from portal import audit
from portal.accounts import api_keys
from portal.accounts.api_keys import ApiKeyView, CreatedKey
from portal.accounts.authority import lock_tenant
from portal.accounts.peppers import Peppers
from portal.accounts.standing import refuse_ended_key
from portal.domain import Principal
from portal.errors import Conflict


class Overlap(StrEnum):
    """How long the old key stays valid beside the new one."""

    NONE = "none"
    HOUR = "1h"
    DAY = "1d"
    WEEK = "7d"

    @property
    def length(self) -> timedelta:
        """The time itself."""
        return {
            Overlap.NONE: timedelta(),
            Overlap.HOUR: timedelta(hours=1),
            Overlap.DAY: timedelta(days=1),
            Overlap.WEEK: timedelta(days=7),
        }[self]


def rotate(
    session: Session,
    peppers: Peppers,
    principal: Principal,
    key_id: str,
    *,
    overlap: Overlap = Overlap.DAY,
    not_after: datetime | None = None,
    actor: str | None = None,
) -> CreatedKey:
    """Makes a key with the old one's name and scopes, which lives as long as the old one was given to live.

    The old one ends after `overlap`, sooner where it would have ended sooner, at once for none. The new one is of the
    same member, and ends at `not_after` at the latest. `actor` is for the audit when somebody acts for the principal.

    Raises NotFound and Forbidden as `api_keys.revoke` does, Forbidden (scope_not_allowed) for a scope that the
    principal lacks, Conflict for a key that has ended (api_key_ended) or was replaced already (api_key_replaced), and
    Unauthenticated when the key that asks has ended.
    """
    lock_tenant(session, principal.tenant_id)
    refuse_ended_key(session, principal)
    old = api_keys.own_key(session, principal, key_id)
    _refuse_ended(old)
    created = api_keys.create(
        session,
        peppers,
        # A key has the rights of its member, and a replacement no more than what it replaces.
        replace(principal, member_id=old.member_id, email=old.created_by),
        name=old.name,
        scopes=old.scopes,
        expires_at=_expiry(old, not_after),
        actor=actor or principal.label,
    )
    _end(session, principal.tenant_id, old, overlap, new_id=created.view.id)
    audit.record(
        session,
        "api_key.rotated",
        actor=actor or principal.label,
        tenant_id=principal.tenant_id,
        target=old.id,
        address=principal.address,
        prefix=old.prefix,
        name=old.name,
        replaced_by=created.view.id,
        overlap=overlap.value,
    )
    return created


def _refuse_ended(old: ApiKeyView) -> None:
    if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now()):
        raise Conflict("The key has ended.", code="api_key_ended", remedy="Make a new key instead.")
    if old.replaced_by is not None:
        raise _replaced()


def _replaced() -> Conflict:
    return Conflict(
        "The key is being replaced already.", code="api_key_replaced", remedy="Rotate the key that replaces it."
    )


def _expiry(old: ApiKeyView, not_after: datetime | None) -> datetime | None:
    """The old key's length of life, from now on."""
    expires_at = None if old.expires_at is None else now() + (old.expires_at - old.created_at)
    if not_after is None:
        return expires_at
    return not_after if expires_at is None else min(expires_at, not_after)


def _end(session: Session, tenant_id: str, old: ApiKeyView, overlap: Overlap, *, new_id: str) -> None:
    ends_at = now() + overlap.length
    values: dict[str, object] = {"replaced_by": new_id}
    if overlap is Overlap.NONE:
        values["revoked_at"] = ends_at
    elif old.expires_at is None or old.expires_at > ends_at:
        values["expires_at"] = ends_at
    replaced = session.execute(
        update(ApiKey)
        .where(ApiKey.tenant_id == tenant_id, ApiKey.id == old.id)
        .where(ApiKey.replaced_by.is_(None), ApiKey.revoked_at.is_(None))
        .values(**values)
        .returning(ApiKey.id)
        .execution_options(synchronize_session=False)
    ).one_or_none()
    if replaced is None:  # another rotation, or a revocation, was faster
        raise _replaced()
