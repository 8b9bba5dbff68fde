"""What an admin orders the fleet: drain, restart.

Each order is in the audit log before it is given, and its end after: what the states were and became, or why it was
refused. Where nothing can be written, nothing is ordered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

from portal import audit
from portal.audit import Outcome
from portal.db import Database
from portal.domain import Principal
from portal.errors import Conflict, InvalidRequest, NotFound, PortalError, Unavailable
from portal.fleet.watch import FleetSight, FleetWatch

ALL = "all"
_HIGHEST_NUMBER = 9999
_LOOKS = 5  # the supervisor takes an order in its next turn: the first look may come before it
_PAUSE_SECONDS = 0.2


def drain(database: Database, fleet: FleetWatch | None, who: Principal, number: int) -> FleetSight:
    """Takes one instance out when it has finished what it reads; gives what is seen then.

    Raises NotFound (fleet_not_configured, instance_unknown), Conflict (fleet_conflict), Unavailable
    (fleet_unavailable), InvalidRequest.
    """
    fleet, target = _configured(fleet), _name(number)
    return _ordered(database, fleet, who, ("drain", target), lambda: fleet.control.drain(number))


def restart(database: Database, fleet: FleetWatch | None, who: Principal, number: int | None) -> FleetSight:
    """Replaces one instance, or all one by one (None); gives what is seen then. Raises as `drain`."""
    fleet, target = _configured(fleet), ALL if number is None else _name(number)
    return _ordered(database, fleet, who, ("restart", target), lambda: fleet.control.restart(number))


def _ordered(
    database: Database, fleet: FleetWatch, who: Principal, what: tuple[str, str], give: Callable[[], None]
) -> FleetSight:
    verb, target = what
    before = _states(fleet.sight(), target)
    with database.transaction() as session:
        audit.record(session, f"fleet.{verb}_ordered", actor=who, target=target, states=before)
    try:
        give()
    except PortalError as refused:
        error = _named(refused)
        with database.transaction() as session:
            outcome = _outcome("refused", before, _states(fleet.sight(), target))
            said = {"code": error.code, "reason": error.message}
            audit.record(session, f"fleet.{verb}", actor=who, target=target, outcome=outcome, **said)
        raise error from refused
    seen = _seen_after(fleet, target, before)
    with database.transaction() as session:
        outcome = _outcome("ok", before, _states(seen, target))
        audit.record(session, f"fleet.{verb}", actor=who, target=target, outcome=outcome)
    return seen


def _outcome(
    result: Literal["ok", "refused"], before: Mapping[str, str] | None, after: Mapping[str, str] | None
) -> Outcome:
    """What could not be seen is called unknown: an entry that lacks it reads as if nothing had been there."""
    names = before or after or {}
    unknown = dict.fromkeys(names, "unknown")
    return Outcome(result, before or unknown, after or unknown) if names else Outcome(result)


def _seen_after(fleet: FleetWatch, target: str, before: Mapping[str, str] | None) -> FleetSight:
    seen = fleet.sight(since=time.monotonic())
    for _ in range(_LOOKS - 1):
        if seen.status is None or _states(seen, target) != before:
            break
        time.sleep(_PAUSE_SECONDS)
        seen = fleet.sight(since=time.monotonic())
    return seen


def _configured(fleet: FleetWatch | None) -> FleetWatch:
    if fleet is None:
        raise NotFound(
            "This portal was told of no fleet.",
            code="fleet_not_configured",
            remedy="Set PORTAL_FLEET_URL to the fleet's control, and restart the portal.",
        )
    return fleet


def _name(number: int) -> str:
    if not 0 <= number <= _HIGHEST_NUMBER:
        raise InvalidRequest("An instance is a number from 0.", remedy="Use one of those shown.")
    return f"instance-{number}"


def _states(seen: FleetSight, target: str) -> Mapping[str, str] | None:
    if seen.status is None:
        return None
    return {name: state for name, state in seen.status.states.items() if target in (ALL, name)}


def _named(error: PortalError) -> PortalError:
    """The control's refusal under a code of its own: a program tells it from other things that are not there."""
    for kind, code in (
        (NotFound, "instance_unknown"),
        (Conflict, "fleet_conflict"),
        (Unavailable, "fleet_unavailable"),
    ):
        if isinstance(error, kind):
            return kind(error.message, remedy=error.remedy, code=code, retry_after_seconds=error.retry_after_seconds)
    return error
