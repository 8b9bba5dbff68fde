"""The fleet comes up, or says why not: a status that is not zero, a reason, and no READY=1 to systemd before.

It is up when store, router and an instance are; an instance that does not read is told by name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from portal.errors import Unavailable
from portal.fleet_commands import fleet as fleet_program
from portal.serving import run_folder
from portal.serving.card import Memory
from portal.serving.checkpoint_headers import read_shape
from portal.serving.configuration import load
from portal.serving.memory_plan import make_plan
from portal.serving.supervisor import Supervisor
from tests.running_portal import ROOT
from tests.serving.conftest import FleetMaker, wait_for
from tests.serving.fleets import FakeFleet, states


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def _heard(systemd: socket.socket) -> list[bytes]:
    systemd.setblocking(False)
    heard = []
    try:
        while True:
            heard.append(systemd.recv(4096))
    except BlockingIOError:
        return heard


def _assert_never_up(fleet: FakeFleet, systemd: socket.socket) -> None:
    assert "the fleet is up" not in fleet.log
    assert _heard(systemd) == [b"STOPPING=1"]


def test_systemd_is_told_when_the_fleet_is_ready(make_fleet: FleetMaker, systemd: socket.socket) -> None:
    make_fleet().up_and_ready()
    assert systemd.recv(4096).startswith(b"READY=1\nSTATUS=2 of 2 instances read")
    wait_for(lambda: systemd.recv(4096).startswith(b"WATCHDOG=1"))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("python", "The weight store did not get ready: could not be started: {path}: No such file"),
        ("vllm", "No instance gets ready: could not be started: {path}: No such file"),
        ("vllm-router", "The router did not get ready: could not be started: {path}: No such file"),
    ],
)
def test_up_fails_in_words_when_a_program_is_missing(
    make_fleet: FleetMaker, systemd: socket.socket, program: str, reason: str
) -> None:
    fleet = make_fleet(1)
    fleet.program(program).unlink()
    assert fleet.up().ended() == 2
    assert reason.format(path=fleet.program(program)) in fleet.log
    assert "Traceback" not in fleet.log
    _assert_never_up(fleet, systemd)


def test_up_fails_in_words_when_the_router_ends_at_each_start(make_fleet: FleetMaker, systemd: socket.socket) -> None:
    fleet = make_fleet(1)
    with fleet.broken("vllm-router"):
        assert fleet.up().ended() == 2
    assert "The router did not get ready: ended with status 1: ERROR out of order" in fleet.log
    _assert_never_up(fleet, systemd)


def test_up_fails_in_words_when_no_instance_ever_starts(make_fleet: FleetMaker) -> None:
    fleet = make_fleet()
    for number in (0, 1):
        fleet.behave(number, "dies")
    assert fleet.up().ended() == 2
    assert "No instance gets ready: ended with status 1: this instance was told to die" in fleet.log


def test_fleet_is_up_and_names_the_instance_that_does_not_read_when_the_other_does(
    make_fleet: FleetMaker, systemd: socket.socket
) -> None:
    fleet = make_fleet()
    fleet.behave(1, "dies")
    fleet.up()
    ended = "instance-1 does not read (failed): ended with status 1"
    fleet.wait_until(lambda found: found["router"]["state"] == "ready" and ended in found["fleet"]["summary"])
    told = systemd.recv(4096).decode()
    assert told.startswith("READY=1\nSTATUS=1 of 2 instances read")
    assert "instance-1 does not read" in told
    assert "this instance was told to die" in told
    assert "WARNING the fleet is up: 1 of 2 instances read" in fleet.log
    shown = CliRunner().invoke(fleet_program, ["status", "--config", str(fleet.config)])
    assert ended in shown.stdout
    assert fleet.read_a_page() == "instance-0"
    fleet.behave(1, "")
    fleet.control.restart(1)
    found = fleet.wait_until(lambda found: states(found) == ["ready", "ready"])
    assert found["fleet"]["summary"].endswith("2 of 2 instances read at " + found["router"]["url"])


def test_up_fails_in_words_when_the_store_cannot_load(make_fleet: FleetMaker) -> None:
    fleet = make_fleet()
    fleet.load("dies")
    assert fleet.up().ended() == 2
    assert "The weight store did not get ready: ended with status 3: The loader ended with status 7" in fleet.log


def test_up_ends_with_the_reason_when_a_part_fails_as_nobody_foresaw(
    make_fleet: FleetMaker, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = load(make_fleet(1).config)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    async def breaks() -> None:
        raise RuntimeError("a wheel came off")

    async def up() -> None:
        async with httpx.AsyncClient(trust_env=False) as http:
            plan = make_plan(fleet, read_shape(fleet.checkpoint), Memory("a card as stated", 64 << 30, 0))
            supervisor = Supervisor(fleet, plan, http)
            monkeypatch.setattr(supervisor.router, "keep", breaks)
            await supervisor.run()

    with run_folder.held(fleet), pytest.raises(Unavailable, match="RuntimeError: a wheel came off"):
        asyncio.run(up())
    assert _heard(systemd) == [b"STOPPING=1"]


def test_down_ends_it_quietly_when_the_store_still_loads(make_fleet: FleetMaker, systemd: socket.socket) -> None:
    fleet = make_fleet(1)
    fleet.load("hangs")
    fleet.up()
    fleet.wait_until(lambda found: found["store"]["pid"] is not None)
    fleet.control.down()
    assert fleet.ended() == 0
    assert "ERROR" not in fleet.log
    _assert_never_up(fleet, systemd)
