"""/v1/admin/fleet and what /readyz tells of workers: seen without holding anybody up, ordered with an audit entry."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from models import AuditEntry
from portal.domain import Scope
from portal.settings import FleetSettings
from tests.api.conftest import Persona, Portal, admin_of, assert_problem
from tests.api.test_problems import broken
from tests.fleet.scripted import TOKEN, ServedFleet, scripted_fleet
from tests.serving.conftest import wait_for


@pytest.fixture
def admin(live: Portal, people: Callable[..., Persona]) -> Persona:
    return people(admin_of(live), scopes=tuple(Scope))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedFleet]:
    with scripted_fleet(tmp_path / "fleet") as fleet:
        yield fleet


@pytest.fixture
def client(live: Portal, admin: Persona, served: ServedFleet) -> Iterator[TestClient]:
    """The portal's API with this fleet, over TCP; the admin's key is sent."""
    with _portal(live, served.settings(over_tcp=True)) as portal:
        portal.headers["Authorization"] = f"Bearer {admin.key}"
        yield portal


def _portal(live: Portal, fleet: FleetSettings) -> Any:
    return broken(live, settings=dataclasses.replace(live.services.settings, fleet=fleet))


def test_fleet_engines_and_queue_are_shown_without_the_token(client: TestClient, served: ServedFleet) -> None:
    served.supervisor.states[1] = "failed"
    served.supervisor.last_error = "killed by signal 9"
    reply = client.get("/v1/admin/fleet")
    body = reply.json()
    assert (reply.status_code, body["is_configured"], body["trouble"]) == (200, True, None)
    assert [(one["state"], one["running"], one["cache_used"]) for one in body["instances"]] == [
        ("ready", 3, 0.25),
        ("failed", None, None),
    ]
    assert body["instances"][1]["last_error"] == "killed by signal 9"
    assert (body["store"]["total_bytes"], body["store"]["readers"]) == (706_000_000, ["instance-0"])
    assert [(each["name"], each["workers"]) for each in body["engines"]] == [("fake", None)]
    assert set(body["queue"]) == {"queued_pages", "running_pages", "oldest_seconds"}
    assert TOKEN not in reply.text


def test_instance_is_drained_and_restarted_and_who_did_it_is_kept(
    live: Portal, admin: Persona, client: TestClient, served: ServedFleet
) -> None:
    drained = client.post("/v1/admin/fleet/drain", json={"instance": 1})
    assert (drained.status_code, drained.json()["instances"][1]["state"]) == (200, "draining")
    assert_problem(client.post("/v1/admin/fleet/drain", json={"instance": 0}), 409, "fleet_conflict")  # type: ignore[arg-type]
    assert_problem(client.post("/v1/admin/fleet/drain", json={"instance": 9}), 404, "instance_unknown")  # type: ignore[arg-type]
    for wrong in ({"instance": -1}, {}, {"instance": 0, "all": True}):
        assert_problem(client.post("/v1/admin/fleet/drain", json=wrong), 422, "invalid_request")  # type: ignore[arg-type]
    assert client.post("/v1/admin/fleet/restart", json={"instance": 1}).status_code == 200
    assert client.post("/v1/admin/fleet/restart", json={}).status_code == 200
    assert served.supervisor.told == [("drain", 1), ("drain", 0), ("drain", 9), ("restart", [1]), ("restart", None)]
    asked = select(AuditEntry).where(AuditEntry.actor == admin.principal.label, AuditEntry.action == "fleet.drain")
    with live.services.database.reading() as session:
        entries = list(session.scalars(asked.order_by(AuditEntry.at)))
    assert [(entry.target, entry.result) for entry in entries] == [
        ("instance-1", "ok"),
        ("instance-0", "refused"),
        ("instance-9", "refused"),
    ]
    assert entries[0].after == {"instance-1": "draining"}


def test_trouble_is_told_and_orders_fail_in_words_when_the_fleet_is_away(
    live: Portal, admin: Persona, tmp_path: Path
) -> None:
    with _portal(live, FleetSettings.model_validate({"fleet_url": str(tmp_path / "none.sock")})) as client:
        client.headers["Authorization"] = f"Bearer {admin.key}"
        shown = client.get("/v1/admin/fleet")
        assert (shown.status_code, shown.json()["instances"]) == (200, None)
        assert "does not answer" in shown.json()["trouble"]["detail"]
        assert_problem(client.post("/v1/admin/fleet/restart", json={}), 503, "fleet_unavailable")


def test_portal_without_a_fleet_says_so(admin: Persona) -> None:
    shown = admin.client.get("/v1/admin/fleet").json()
    assert (shown["is_configured"], shown["instances"], shown["trouble"]) == (False, None, None)
    assert_problem(admin.client.post("/v1/admin/fleet/drain", json={"instance": 0}), 404, "fleet_not_configured")


def test_readiness_counts_workers_and_stays_ready_when_the_fleet_is_not_whole(
    live: Portal, served: ServedFleet
) -> None:
    served.supervisor.states[1] = "failed"
    with _portal(live, served.settings(over_tcp=True)) as client:
        first = client.get("/readyz")
        assert (first.status_code, first.json()["parts"]["fleet"]) == (200, "It was not seen yet.")
        wait_for(lambda: "workers" in client.get("/readyz").json())
        reply = client.get("/readyz")
    assert reply.status_code == 200
    assert reply.json()["workers"] == {"fleet": {"ready": 1, "total": 2}}
    assert reply.json()["parts"]["fleet"] == "1 of 2 instances are ready."
    assert served.supervisor.asked == 1
    assert "127.0.0.1" not in reply.text
    assert TOKEN not in reply.text


def test_readiness_is_not_held_up_when_the_fleet_hangs(live: Portal, served: ServedFleet) -> None:
    served.supervisor.is_held = True
    with _portal(live, served.settings()) as client:
        for _ in range(10):
            assert client.get("/readyz").json()["parts"]["fleet"] == "It was not seen yet."
            time.sleep(0.01)
    assert served.supervisor.asked <= 1
