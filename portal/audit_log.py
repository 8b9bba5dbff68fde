"""The audit log as an admin reads it: filtered, newest first, a stretch at a time; reading it is an entry itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, or_, select
from sqlalchemy.orm import Session

from models import AuditEntry, Tenant
from portal import audit
from portal.audit import Actor
from portal.domain import Principal
from portal.errors import InvalidRequest

MAX_STRETCH = 500
_MAX_FILTER_LENGTH = 254
_RESULTS = ("ok", "refused")


@dataclass(frozen=True)
class Filters:
    """What to look for; None takes all. `action` may end with a dot to take a whole subject (`api_key.`).

    `since` is included, `until` not; both aware. `tenant` is an id or a name. `before` is the id of the entry after
    which to go on.
    """

    since: datetime | None = None
    until: datetime | None = None
    actor: str | None = None
    action: str | None = None
    target: str | None = None
    tenant: str | None = None
    result: str | None = None
    request_id: str | None = None
    before: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The filters that take not all, as the entry of the reading keeps them."""
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
            if value is not None and name != "before"
        }


def read(session: Session, reader: Actor, filters: Filters, *, limit: int = 100) -> list[AuditEntry]:
    """The next entries, and an entry that says who read with which filters. Raises InvalidRequest."""
    found = list(session.scalars(_query(session, _checked(filters)).limit(min(max(limit, 1), MAX_STRETCH))))
    if filters.before is None:  # going on reading the same is not another reading
        audit.record(session, "audit.read", actor=reader, tenant_id=_own_tenant(reader), filters=filters.given)
    return found


def read_all(session: Session, reader: Actor, filters: Filters) -> Iterator[AuditEntry]:
    """All of them, newest first, for a file. The session stays open until the last was taken."""
    query = _query(session, _checked(replace(filters, before=None)))
    found = session.scalars(query.execution_options(yield_per=MAX_STRETCH))
    return iter(found)


def record_export(session: Session, reader: Actor, filters: Filters) -> None:
    """The entry that says who took them all away as a file. Raises InvalidRequest."""
    given = _checked(filters).given
    audit.record(session, "audit.exported", actor=reader, tenant_id=_own_tenant(reader), filters=given)


def tenant_names(session: Session, entries: list[AuditEntry]) -> dict[str, str]:
    """Id → name of those tenants of the entries that are still there."""
    ids = {entry.tenant_id for entry in entries if entry.tenant_id}
    return {row.id: row.name for row in session.execute(select(Tenant.id, Tenant.name).where(Tenant.id.in_(ids)))}


def _own_tenant(reader: Actor) -> str | None:
    return reader.tenant_id if isinstance(reader, Principal) else None


def _query(session: Session, filters: Filters) -> Select[AuditEntry]:
    query = select(AuditEntry).order_by(AuditEntry.at.desc(), AuditEntry.id.desc())
    for name in ("actor", "target", "result", "request_id"):
        wanted = getattr(filters, name)
        if wanted is not None:
            query = query.where(getattr(AuditEntry, name) == wanted)
    if filters.action is not None:
        is_subject = filters.action.endswith(".")
        action = AuditEntry.action
        query = query.where(
            action.startswith(filters.action, autoescape=True) if is_subject else action == filters.action
        )
    if filters.since is not None:
        query = query.where(AuditEntry.at >= filters.since)
    if filters.until is not None:
        query = query.where(AuditEntry.at < filters.until)
    if filters.tenant is not None:
        named = select(Tenant.id).where(Tenant.name == filters.tenant).scalar_subquery()
        query = query.where(or_(AuditEntry.tenant_id == filters.tenant, AuditEntry.tenant_id == named))
    return _after(session, query, filters.before)


def _after(session: Session, query: Select[AuditEntry], before: str | None) -> Select[AuditEntry]:
    if before is None:
        return query
    last = session.get(AuditEntry, before)
    if last is None:
        raise InvalidRequest("There is no such audit entry to go on from.", remedy="Begin at the newest.")
    older = or_(AuditEntry.at < last.at, and_(AuditEntry.at == last.at, AuditEntry.id < last.id))
    return query.where(older)


def _checked(filters: Filters) -> Filters:
    for name, value in asdict(filters).items():
        if isinstance(value, str) and (len(value) > _MAX_FILTER_LENGTH or "\0" in value):
            raise InvalidRequest(f"The filter {name} is too long, or no text.", remedy="Shorten it.")
        if isinstance(value, datetime) and value.tzinfo is None:
            raise InvalidRequest(f"{name} has no time zone.", remedy="Write it like 2026-11-30T00:00:00Z.")
    if filters.result is not None and filters.result not in _RESULTS:
        raise InvalidRequest("A result is ok or refused.", remedy="Choose one, or leave it out.")
    return filters
