"""The append-only record of who did what to whom; written in the caller's transaction, so both happen or neither.

An entry made while a request is served carries that request's id, which the HTTP edge binds to the log context
(portal/web/headers.py): the entry, the log lines and the answer name the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from sqlalchemy.orm import Session

from models import AuditEntry
from portal.domain import Principal

Actor = Principal | str


@dataclass(frozen=True)
class Outcome:
    """How it ended: `refused` where it was tried and not allowed; the values that a change found and left."""

    result: Literal["ok", "refused"] = "ok"
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


_DONE = Outcome()
REFUSED = Outcome(result="refused")


def record(
    session: Session,
    action: str,
    *,
    actor: Actor,
    tenant_id: str | None = None,
    target: str | None = None,
    address: str | None = None,
    outcome: Outcome = _DONE,
    **details: Any,
) -> None:
    """Adds one entry. `action` reads `subject.verb` (`api_key.revoked`); no value holds a secret or a hash.

    `actor` is who did it: a principal, whose address is taken too, or a name.
    """
    session.add(
        AuditEntry(
            action=action,
            actor=label_of(actor),
            tenant_id=tenant_id,
            target=target,
            address=address or (actor.address if isinstance(actor, Principal) else None),
            details=details,
            result=outcome.result,
            request_id=structlog.contextvars.get_contextvars().get("request_id"),
            before=_plain(outcome.before),
            after=_plain(outcome.after),
        )
    )


def label_of(actor: Actor) -> str:
    """Who it was, as entries and rows keep it."""
    return actor.label if isinstance(actor, Principal) else actor


def _plain(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return dict(values) if values is not None else None
