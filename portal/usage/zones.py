"""The time zone in which a tenant's days and months begin; its owner chooses it."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from models import Tenant
from portal import audit
from portal.audit import Outcome
from portal.domain import Principal, Role
from portal.errors import Forbidden
from portal.usage.periods import checked_time_zone


def change_time_zone(session: Session, principal: Principal, name: str) -> str:
    """Sets the zone and records it. Counters go on: a day that has begun never begins again, in any zone.

    Raises Forbidden for a member who is no owner, InvalidRequest (time_zone_unknown).
    """
    if principal.role is not Role.OWNER:
        raise Forbidden("Only an owner changes the time zone.", remedy="Ask an owner of your tenant.")
    name = checked_time_zone(name.strip())
    before = session.scalar(select(Tenant.time_zone).where(Tenant.id == principal.tenant_id))
    if before != name:
        session.execute(update(Tenant).where(Tenant.id == principal.tenant_id).values(time_zone=name))
        audit.record(
            session,
            "tenant.time_zone_changed",
            actor=principal.label,
            tenant_id=principal.tenant_id,
            target=principal.tenant_id,
            address=principal.address,
            outcome=Outcome(before={"time_zone": before}, after={"time_zone": name}),
        )
    return name


@cache
def time_zones() -> tuple[str, ...]:
    """The names to choose from: UTC first, then places by name, without aliases and fixed offsets."""
    places = {name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix", "right"))}
    return ("UTC", *sorted(places))
