"""Probes answer without a key, name the part that is not ready, and tell no secret."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import cast

import httpx
import pytest

from portal.api.probes import Readiness
from portal.db import Database
from portal.documents.storage import Storage
from tests.api.conftest import Portal, in_trouble
from tests.api.test_problems import broken


def test_portal_is_alive_and_ready(live: Portal) -> None:
    assert httpx.get(f"{live.url}/livez").json() == {"status": "ok"}
    reply = httpx.get(f"{live.url}/readyz")
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "ready",
        "parts": {"database": "ok", "storage": "ok", "engine fake": "ok"},
    }
    assert httpx.head(f"{live.url}/livez").status_code == httpx.head(f"{live.url}/readyz").status_code == 200


def test_database_is_named_when_it_is_away_and_the_process_is_alive(live: Portal) -> None:
    with broken(live, database=Database("postgresql+psycopg://portal:hunter2@127.0.0.1:1/portal")) as client:
        assert client.get("/livez").status_code == 200
        reply = client.get("/readyz")
    assert (reply.status_code, reply.json()["status"]) == (503, "unready")
    assert reply.json()["parts"] == {
        "database": "The database does not answer.",
        "storage": "ok",
        "engine fake": "ok",
    }
    assert "hunter2" not in reply.text


def test_storage_is_named_when_it_cannot_be_written(live: Portal, tmp_path: Path) -> None:
    (tmp_path / "tenants").write_text("in the way")
    jobs = dataclasses.replace(live.services.jobs, storage=Storage(tmp_path))
    with broken(live, jobs=jobs) as client:
        reply = client.get("/readyz")
    assert reply.status_code == 503
    assert reply.json()["parts"]["storage"] != "ok"
    assert str(tmp_path) not in reply.text


def test_portal_is_ready_and_says_so_when_an_engine_elsewhere_is_away(
    live: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live.engine, "capability", dataclasses.replace(live.engine.capability, is_remote=True))
    with in_trouble(live, "The engine fake does not answer."):
        reply = httpx.get(f"{live.url}/readyz")
    assert (reply.status_code, reply.json()["status"]) == (200, "ready")
    assert reply.json()["parts"]["engine fake"] == "The engine fake does not answer."


def test_engine_is_named_when_its_probe_was_not_read(live: Portal) -> None:
    with in_trouble(live, "its probe image was not read."):
        reply = httpx.get(f"{live.url}/readyz")
    assert reply.status_code == 503
    assert reply.json()["parts"]["engine fake"] == "its probe image was not read."


class _Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_parts_are_looked_at_once_a_second_when_many_ask(live: Portal) -> None:
    looks: list[int] = []

    class Counting:
        def check(self) -> None:
            looks.append(1)

    jobs = dataclasses.replace(live.services.jobs, storage=cast(Storage, Counting()))
    clock = _Clock()
    readiness = Readiness(dataclasses.replace(live.services, jobs=jobs), clock=clock)
    for _ in range(50):
        assert set(readiness.parts().values()) == {"ok"}
    assert len(looks) == 1
    clock.seconds = 1.0
    readiness.parts()
    assert len(looks) == 2


def test_parts_do_not_answer_when_the_look_hangs(live: Portal) -> None:
    asked, answered = threading.Event(), threading.Event()

    class Hanging:
        def check(self) -> None:
            asked.set()
            answered.wait(20)

    jobs = dataclasses.replace(live.services.jobs, storage=cast(Storage, Hanging()))
    readiness = Readiness(dataclasses.replace(live.services, jobs=jobs))
    looking = threading.Thread(target=readiness.parts)
    looking.start()
    assert asked.wait(20)
    assert readiness.parts()["storage"] != "ok", "and the second caller did not hang"
    answered.set()
    looking.join(20)
    assert readiness.parts()["storage"] == "ok"
