"""A key that comes in, proven: looked up by its public prefix, and by HMAC with the pepper it was made with."""

from __future__ import annotations

import hmac
import re
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog
from sqlalchemy import bindparam, or_, select, update

from models import ApiKey, Member, Tenant
from models.base import now
from portal.accounts.api_keys import PREFIX_LENGTH, SECRET_LENGTH, parsed_scopes
from portal.accounts.members import no_new_jobs
from portal.accounts.naming import stored_address
from portal.accounts.peppers import Peppers
from portal.accounts.standing import refuse_ended
from portal.accounts.suspension import refuse_suspended
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.errors import Unauthenticated

log = structlog.get_logger()

_SHAPE = re.compile(rf"(ocr_[a-z0-9]{{{PREFIX_LENGTH}}})_[A-Za-z0-9]{{{SECRET_LENGTH}}}")
_USE_WRITTEN_EVERY = timedelta(minutes=1)
_KEYS, _TENANTS, _MEMBERS = ApiKey.__table__.c, Tenant.__table__.c, Member.__table__.c


_OF_KEY = ("id", "prefix", "pepper_id", "key_hash", "scopes", "expires_at", "revoked_at", "last_used_at")


class _Found(NamedTuple):
    """What a key is proven by, and whom it stands for: _BY_PREFIX's columns in order.

    `member_id` and what follows are None without a member.
    """

    id: str
    prefix: str
    pepper_id: str
    key_hash: str
    scopes: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    tenant_id: str
    tenant_name: str
    state: str
    state_reason: str | None
    member_id: str | None
    email: str | None
    role: str | None
    is_admin: bool | None
    removed_at: datetime | None


_BY_PREFIX = (  # asked at each request: built once
    select(
        *(_KEYS[name] for name in _OF_KEY),
        *(_TENANTS[name] for name in ("id", "name", "state", "state_reason")),
        *(_MEMBERS[name] for name in ("id", "email", "role", "is_admin", "removed_at")),
    )
    .join(Tenant, Tenant.id == ApiKey.tenant_id)
    .outerjoin(Member, (Member.id == ApiKey.member_id) & (Member.tenant_id == ApiKey.tenant_id))
    .where(ApiKey.prefix == bindparam("given_prefix"))
)


def authenticate(database: Database, peppers: Peppers, key: str, *, address: str | None) -> Principal:
    """The principal of a valid key, with the key's scopes; admin only if its member is too.

    Raises Unauthenticated: api_key_invalid, and to who holds the real key api_key_revoked (also when its member was
    removed) or api_key_expired; and TenantSuspended.
    """
    match = _SHAPE.fullmatch(key)
    found = _find(database, match[1]) if match else None
    if found is None or not _is_proven(peppers, found, key):
        raise Unauthenticated("The API key is not valid.", code="api_key_invalid")
    refuse_ended(revoked_at=found.revoked_at or found.removed_at, expires_at=found.expires_at)
    refuse_suspended(found)
    address = stored_address(address)
    _record_use(database, found, address)
    scopes = parsed_scopes(found.scopes)
    return Principal(
        tenant_id=found.tenant_id,
        tenant_name=found.tenant_name,
        member_id=found.member_id,
        email=found.email,
        role=Role(found.role) if found.role else Role.MEMBER,
        is_admin=Scope.ADMIN in scopes and bool(found.is_admin),
        scopes=frozenset(scopes),
        api_key_id=found.id,
        address=address,
        no_new_jobs=no_new_jobs(found),
    )


def _find(database: Database, prefix: str) -> _Found | None:
    with database.asking() as connection:
        row = connection.execute(_BY_PREFIX, {"given_prefix": prefix}).one_or_none()
    return _Found(*row) if row else None


def _is_proven(peppers: Peppers, stored: _Found, key: str) -> bool:
    pepper = peppers.find(stored.pepper_id)
    if pepper is None:
        log.warning("API key was made with a server secret that is no longer known", prefix=stored.prefix)
        return False
    return hmac.compare_digest(pepper.hexdigest(key), stored.key_hash)


def _record_use(database: Database, stored: _Found, address: str | None) -> None:
    cutoff = now() - _USE_WRITTEN_EVERY
    if stored.last_used_at is not None and stored.last_used_at > cutoff:
        return
    with database.transaction() as session:
        session.execute(
            update(ApiKey)
            .where(
                ApiKey.tenant_id == stored.tenant_id,
                ApiKey.id == stored.id,
                or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at <= cutoff),
            )
            .values(last_used_at=now(), last_used_address=address)
        )
