"""The fleet stays up: what dies, hangs or loops is told apart and dealt with, and no page is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from portal.errors import Conflict, NotFound
from portal.serving.process_groups import members
from tests.running_portal import ROOT
from tests.serving.conftest import wait_for
from tests.serving.fleets import FakeFleet, states

FleetMaker = Callable[..., FakeFleet]


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[FleetMaker]:
    made: list[FakeFleet] = []

    def make(instances: int = 2) -> FakeFleet:
        made.append(FakeFleet(tmp_path / f"fleet-{len(made)}", instances))
        return made[-1]

    yield make
    for fleet in made:
        fleet.stop()


@pytest.fixture
def fleet(make_fleet: FleetMaker) -> FakeFleet:
    return make_fleet().up_and_ready()


class Readers:
    """Readers that ask the router without pause, and count what they got."""

    def __init__(self, fleet: FakeFleet, count: int = 3) -> None:
        self.pages: list[str] = []
        self.faults: list[httpx.HTTPError] = []
        self._fleet, self._over = fleet, threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(count)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                self.pages.append(self._fleet.read_a_page())
            except httpx.HTTPError as error:
                self.faults.append(error)


def test_pages_are_read_by_all_instances_of_one_store_when_the_fleet_is_up(fleet: FakeFleet) -> None:
    assert {fleet.read_a_page() for _ in range(4)} == {"instance-0", "instance-1"}
    found = fleet.wait_until(lambda found: len(found["store"]["leases"] or ()) == 2)
    assert found["store"]["transport"] == "memfd"
    assert all(instance["private_bytes"] > 0 for instance in found["instances"])
    assert (fleet.folder / "run").stat().st_mode & 0o777 == 0o700
    environ = Path(f"/proc/{found['instances'][0]['pid']}/environ").read_bytes()
    assert b"PORTAL_SECRET" not in environ


def test_no_page_is_lost_when_all_instances_are_restarted_one_by_one(fleet: FakeFleet) -> None:
    with Readers(fleet) as readers:
        fleet.control.restart()
        fleet.wait_until(lambda found: [one["starts"] for one in found["instances"]] == [2, 2])
        fleet.wait_until(lambda found: states(found) == ["ready", "ready"])
    assert readers.faults == []
    assert len(readers.pages) > 10


def test_whole_group_is_ended_and_started_anew_when_the_leader_is_killed(fleet: FakeFleet) -> None:
    pid = fleet.control.status()["instances"][0]["pid"]
    assert len(members(pid)) == 2
    with Readers(fleet) as readers:
        os.kill(pid, signal.SIGKILL)
        found = fleet.wait_until(lambda found: found["instances"][0]["starts"] == 2 and states(found)[0] == "ready")
    assert members(pid) == []
    assert found["instances"][0]["failures"] == 1
    assert readers.faults == []


@pytest.mark.parametrize(("behaviour", "reason"), [("hangs", "does not answer"), ("stuck", "makes no progress")])
def test_hung_instance_is_replaced_when_its_process_lives(fleet: FakeFleet, behaviour: str, reason: str) -> None:
    pid = fleet.control.status()["instances"][1]["pid"]
    fleet.behave(1, behaviour)
    fleet.wait_until(lambda found: found["instances"][1]["pid"] != pid)
    fleet.behave(1, "")
    fleet.wait_until(lambda found: states(found) == ["ready", "ready"])
    assert f"instance-1 hangs: it {'has work and ' if behaviour == 'stuck' else ''}{reason}" in fleet.log


def test_crash_loop_ends_with_the_reason_and_others_go_on(fleet: FakeFleet) -> None:
    fleet.behave(0, "dies")
    os.kill(fleet.control.status()["instances"][0]["pid"], signal.SIGKILL)
    found = fleet.wait_until(lambda found: states(found) == ["failed", "ready"])
    assert found["instances"][0]["last_error"] == "ended with status 1: this instance was told to die"
    assert fleet.read_a_page() == "instance-1"
    assert "instance-0 failed 3 times and is not started again" in fleet.log
    fleet.behave(0, "")
    fleet.control.restart(0)
    fleet.wait_until(lambda found: states(found) == ["ready", "ready"])


def test_up_fails_in_words_when_no_instance_ever_starts(make_fleet: FleetMaker) -> None:
    fleet = make_fleet()
    for number in (0, 1):
        fleet.behave(number, "dies")
    fleet.up()
    assert fleet.process is not None
    assert fleet.process.wait(timeout=60) == 2
    assert "No instance gets ready: ended with status 1: this instance was told to die" in fleet.log


def test_drained_instance_finishes_its_page_and_rests_until_it_is_restarted(fleet: FakeFleet) -> None:
    with Readers(fleet) as readers:
        fleet.control.drain(0)
        fleet.wait_until(lambda found: states(found) == ["stopped", "ready"])
    assert readers.faults == []
    with pytest.raises(Conflict, match="only one that reads"):
        fleet.control.drain(1)
    with pytest.raises(NotFound, match="no instance 7"):
        fleet.control.drain(7)
    fleet.control.restart(0)
    fleet.wait_until(lambda found: states(found) == ["ready", "ready"])


def test_readers_are_moved_to_a_new_store_one_by_one_when_the_store_is_killed(fleet: FakeFleet) -> None:
    before = fleet.control.status()["store"]
    with Readers(fleet) as readers:
        os.kill(before["pid"], signal.SIGKILL)
        fleet.wait_until(
            lambda found: (
                found["store"]["generation"] == 2
                and [one["starts"] for one in found["instances"]] == [2, 2]
                and states(found) == ["ready", "ready"]
                and len(found["store"]["leases"]) == 2
            )
        )
    assert readers.faults == []


def test_router_is_started_anew_when_it_is_killed(fleet: FakeFleet) -> None:
    pid = fleet.control.status()["router"]["pid"]
    os.kill(pid, signal.SIGKILL)
    fleet.wait_until(lambda found: found["router"]["state"] == "ready" and found["router"]["pid"] != pid)
    assert {fleet.read_a_page() for _ in range(4)} == {"instance-0", "instance-1"}


def test_next_run_ends_what_a_killed_supervisor_left(fleet: FakeFleet) -> None:
    found = fleet.control.status()
    left = [found["store"]["pid"], found["router"]["pid"], *(one["pid"] for one in found["instances"])]
    assert fleet.process is not None
    fleet.process.kill()
    fleet.process.wait()
    assert all(members(pid) for pid in left)
    fleet.up_and_ready()
    assert all(members(pid) == [] for pid in left)
    assert "ended what an earlier run left: instance-0, instance-1, router, store" in fleet.log


def test_nothing_is_left_running_when_the_fleet_goes_down(fleet: FakeFleet) -> None:
    found = fleet.control.status()
    pids = [found["store"]["pid"], found["router"]["pid"], *(one["pid"] for one in found["instances"])]
    fleet.control.down()
    assert fleet.process is not None
    assert fleet.process.wait(timeout=60) == 0
    assert all(members(pid) == [] for pid in pids)
    assert not (fleet.folder / "run" / "control.sock").exists()


def test_second_supervisor_is_refused(fleet: FakeFleet) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "app.py"), "fleet", "up", "--config", str(fleet.config)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Another fleet runs in" in done.stderr


def test_store_that_cannot_load_ends_the_start_in_words(make_fleet: FleetMaker) -> None:
    fleet = make_fleet()
    program = fleet.folder / "bin" / "python"
    program.write_text(program.read_text().replace('"good"', '"dies"'))
    fleet.up()
    assert fleet.process is not None
    assert fleet.process.wait(timeout=60) == 2
    assert "The weight store did not get ready" in fleet.log
    assert "The loader ended with status 7" in fleet.log


def test_systemd_is_told_when_the_fleet_is_ready(make_fleet: FleetMaker, tmp_path: Path) -> None:
    import socket

    fleet = make_fleet()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            fleet.up_and_ready()
        finally:
            del os.environ["NOTIFY_SOCKET"]
        assert listener.recv(4096).startswith(b"READY=1\nSTATUS=2 of 2 instances read")
        wait_for(lambda: listener.recv(4096).startswith(b"WATCHDOG=1"))
