"""The fleet stays up: what dies, hangs or loops is told apart and dealt with, and no page is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from portal.serving.process_groups import members
from tests.running_portal import ROOT
from tests.serving.fleets import FakeFleet, Readers, states


def test_pages_are_read_by_all_instances_of_one_store_when_the_fleet_is_up(fleet: FakeFleet) -> None:
    assert {fleet.read_a_page() for _ in range(4)} == {"instance-0", "instance-1"}
    found = fleet.wait_until(lambda found: len(found["store"]["leases"] or ()) == 2)
    assert found["store"]["transport"] == "memfd"
    assert all(instance["private_bytes"] > 0 for instance in found["instances"])
    assert (fleet.folder / "run").stat().st_mode & 0o777 == 0o700
    environ = Path(f"/proc/{found['instances'][0]['pid']}/environ").read_bytes()
    assert b"PORTAL_SECRET" not in environ


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
