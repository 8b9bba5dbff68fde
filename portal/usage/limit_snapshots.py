"""A tenant's plan, zone and own limits as JSON: what a change keeps of before and after, so that it can be undone."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from models import Tenant, TenantLimit

Snapshot = dict[str, Any]


def snapshot(session: Session, tenant: Tenant) -> Snapshot:
    """Plan, zone and own limits as JSON: what `LimitChange.before` and `.after` hold."""
    rows = session.scalars(select(TenantLimit).where(TenantLimit.tenant_id == tenant.id).order_by(TenantLimit.name))
    own = {
        row.name: {
            "value": row.value,
            "until": _iso(row.until),
            "reason": row.reason,
            "set_by": row.set_by,
            "set_at": _iso(row.set_at),
        }
        for row in rows
    }
    return {"plan_id": tenant.plan_id, "time_zone": tenant.time_zone, "limits": own}


def restore(session: Session, tenant: Tenant, state: Snapshot) -> None:
    """Makes the tenant's terms those of a snapshot."""
    tenant.plan_id, tenant.time_zone = state["plan_id"], state["time_zone"]
    session.execute(delete(TenantLimit).where(TenantLimit.tenant_id == tenant.id))
    session.expire_all()
    for name, own in state["limits"].items():
        times = {key: _moment(own[key]) for key in ("until", "set_at")}
        session.add(TenantLimit(tenant_id=tenant.id, name=name, **(own | times)))
    session.flush()


def without_notes(state: Snapshot) -> Snapshot:
    """The state without by whom, when and why: what two states are compared by."""
    own = {name: (limit["value"], limit["until"]) for name, limit in state["limits"].items()}
    return state | {"limits": own}


def fingerprint(state: Snapshot) -> str:
    """What stands for a state where a person is asked about it: equal when nothing that binds differs."""
    return hashlib.sha256(json.dumps(without_notes(state), sort_keys=True).encode()).hexdigest()[:24]


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(written: str | None) -> datetime | None:
    return datetime.fromisoformat(written) if written else None
