"""An order is in the audit log before and after, with what was before and after, also when it is refused or fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models import AuditEntry
from portal.accounts.tenants import create_tenant
from portal.db import Database
from portal.domain import Principal
from portal.errors import Conflict, InvalidRequest, NotFound, PortalError, Unavailable
from portal.fleet import orders
from portal.fleet.watch import configured_fleet
from portal.settings import FleetSettings
from tests.fleet.scripted import ServedFleet


@pytest.fixture
def who(database: Database) -> Principal:
    with database.transaction() as session:
        return create_tenant(session, name="admins", email="a@x.example", password_hash="x", time_zone="UTC")


def _entries(database: Database) -> list[AuditEntry]:
    asked = select(AuditEntry).where(AuditEntry.action.startswith("fleet.")).order_by(AuditEntry.at, AuditEntry.id)
    with database.reading() as session:
        return list(session.scalars(asked))


def test_drain_is_audited_with_what_was_and_became(database: Database, who: Principal, served: ServedFleet) -> None:
    seen = orders.drain(database, configured_fleet(served.settings()), who, 1)
    assert seen.status is not None
    assert seen.status.states == {"instance-0": "ready", "instance-1": "draining"}
    assert served.supervisor.told == [("drain", 1)]
    ordered, done = _entries(database)
    assert (ordered.action, ordered.actor, ordered.target) == ("fleet.drain_ordered", who.label, "instance-1")
    assert ordered.details == {"states": {"instance-1": "ready"}}
    assert (done.action, done.result) == ("fleet.drain", "ok")
    assert (done.before, done.after) == ({"instance-1": "ready"}, {"instance-1": "draining"})


def test_restart_of_one_and_of_all_names_its_target(database: Database, who: Principal, served: ServedFleet) -> None:
    fleet = configured_fleet(served.settings(over_tcp=True))
    orders.restart(database, fleet, who, 0)
    orders.restart(database, fleet, who, None)
    assert served.supervisor.told == [("restart", [0]), ("restart", None)]
    _, one, _, every = _entries(database)
    assert (one.target, one.after) == ("instance-0", {"instance-0": "starting"})
    assert (every.target, every.before) == ("all", {"instance-0": "starting", "instance-1": "ready"})


@pytest.mark.parametrize(
    ("states", "number", "kind", "code"),
    [
        (["ready", "failed"], 0, Conflict, "fleet_conflict"),
        (["ready", "ready"], 7, NotFound, "instance_unknown"),
    ],
)
def test_refused_drain_is_audited_with_its_reason(
    database: Database,
    who: Principal,
    served: ServedFleet,
    states: list[str],
    number: int,
    kind: type[PortalError],
    code: str,
) -> None:
    served.supervisor.states = states
    with pytest.raises(kind) as refused:
        orders.drain(database, configured_fleet(served.settings()), who, number)
    assert refused.value.code == code
    assert refused.value.remedy
    _, end = _entries(database)
    assert (end.result, end.details["code"], end.details["reason"]) == ("refused", code, refused.value.message)
    assert end.before == end.after


def test_failed_order_is_audited_when_the_fleet_is_away(database: Database, who: Principal, tmp_path: Path) -> None:
    fleet = configured_fleet(FleetSettings.model_validate({"fleet_url": str(tmp_path / "none.sock")}))
    with pytest.raises(Unavailable) as failed:
        orders.restart(database, fleet, who, None)
    assert failed.value.code == "fleet_unavailable"
    ordered, end = _entries(database)
    assert (ordered.action, end.result, end.details["code"]) == (
        "fleet.restart_ordered",
        "refused",
        "fleet_unavailable",
    )


def test_nothing_is_ordered_when_the_log_cannot_be_written(
    database: Database, who: Principal, served: ServedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Session, _entry: Any) -> None:
        raise Unavailable("The database does not answer.")

    monkeypatch.setattr(Session, "add", refuse)
    with pytest.raises(Unavailable):
        orders.drain(database, configured_fleet(served.settings()), who, 1)
    assert served.supervisor.told == []


def test_order_is_refused_when_there_is_no_fleet_or_no_such_number(
    database: Database, who: Principal, served: ServedFleet
) -> None:
    with pytest.raises(NotFound) as refused:
        orders.drain(database, None, who, 0)
    assert refused.value.code == "fleet_not_configured"
    for number in (-1, 10_000):
        with pytest.raises(InvalidRequest):
            orders.restart(database, configured_fleet(served.settings()), who, number)
    assert (served.supervisor.told, _entries(database)) == ([], [])
