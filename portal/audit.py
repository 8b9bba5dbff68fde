"""The append-only record of who did what; written in the caller's transaction, so both happen or neither."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from models import AuditEntry


def record(
    session: Session,
    action: str,
    *,
    actor: str,
    tenant_id: str | None = None,
    target: str | None = None,
    address: str | None = None,
    **details: Any,
) -> None:
    """Adds one entry. `action` reads `subject.verb` (`api_key.revoked`); details hold no secret."""
    session.add(
        AuditEntry(
            action=action,
            actor=actor,
            tenant_id=tenant_id,
            target=target,
            address=address,
            details=details,
        )
    )
