"""Instances are taken out and replaced so that pages are read all the while; what follows when store or router fail."""

from __future__ import annotations

import os
import signal
from typing import Any

import httpx
import pytest

from portal.errors import Conflict, NotFound
from portal.serving.probing import parsed
from tests.serving.conftest import wait_for
from tests.serving.fleets import FakeFleet, Readers, states


def _starts(found: dict[str, Any]) -> list[int]:
    return [instance["starts"] for instance in found["instances"]]


def _kill(fleet: FakeFleet, part: str) -> None:
    os.kill(fleet.control.status()[part]["pid"], signal.SIGKILL)


def test_no_page_is_lost_when_all_instances_are_restarted_one_by_one(fleet: FakeFleet) -> None:
    with Readers(fleet) as readers:
        fleet.control.restart()
        fleet.wait_until(lambda found: _starts(found) == [2, 2] and states(found) == ["ready", "ready"])
    assert readers.faults == []
    assert len(readers.pages) > 10


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


def test_second_drain_is_refused_when_the_first_was_ordered_and_is_not_yet_obeyed(fleet: FakeFleet) -> None:
    (fleet.folder / "checkpoint" / "page-seconds").write_text("3")
    fleet.wait_until(lambda found: _holds_a_page(found, 0))  # a probe: it sees an order only after that
    fleet.control.drain(0)
    with pytest.raises(Conflict, match="instance-1 is the only one that reads"):
        fleet.control.drain(1)


def _holds_a_page(found: dict[str, Any], number: int) -> bool:
    return parsed(httpx.get(f"{found['instances'][number]['url']}/metrics").text).running > 0


def test_router_does_not_know_an_instance_that_was_drained_while_it_started(fleet: FakeFleet) -> None:
    router = fleet.program("vllm-router")
    router.write_text(router.read_text().replace("exec", "sleep 3; exec"))
    _kill(fleet, "router")
    fleet.wait_until(lambda found: found["router"]["state"] == "starting")
    fleet.control.drain(0)
    fleet.wait_until(lambda found: states(found) == ["stopped", "ready"] and found["router"]["state"] == "starting")
    found = fleet.wait_until(lambda found: found["router"]["state"] == "ready")
    assert (
        httpx.get(found["router"]["url"]).text.split() == found["router"]["workers"] == [found["instances"][1]["url"]]
    )


def test_readers_are_moved_to_a_new_store_one_by_one_when_the_store_is_killed(fleet: FakeFleet) -> None:
    with Readers(fleet) as readers:
        _kill(fleet, "store")
        fleet.wait_until(
            lambda found: (
                found["store"]["generation"] == 2
                and _starts(found) == [2, 2]
                and states(found) == ["ready", "ready"]
                and len(found["store"]["leases"]) == 2
            )
        )
    assert readers.faults == []


def test_instance_is_moved_to_a_new_store_when_it_had_attached_to_the_old_one_and_still_loaded(
    fleet: FakeFleet,
) -> None:
    fleet.behave(1, "loads")
    fleet.control.restart(1)
    fleet.wait_until(lambda found: states(found) == ["ready", "starting"] and _has_lease_of_its_own(found, 1))
    _kill(fleet, "store")
    fleet.wait_until(lambda found: found["store"]["generation"] == 2)
    fleet.behave(1, "")
    fleet.wait_until(
        lambda found: (
            _starts(found) == [2, 3]
            and states(found) == ["ready", "ready"]
            and _has_lease_of_its_own(found, 0)
            and _has_lease_of_its_own(found, 1)
        )
    )


def _has_lease_of_its_own(found: dict[str, Any], number: int) -> bool:
    return found["instances"][number]["pid"] in [lease["pid"] for lease in found["store"]["leases"] or ()]


def test_instances_read_on_when_the_store_fails_for_good_and_restart_gives_it_a_new_start(fleet: FakeFleet) -> None:
    with fleet.broken("python"):
        _kill(fleet, "store")
        fleet.wait_until(lambda found: found["store"]["state"] == "failed")
        os.kill(fleet.control.status()["instances"][1]["pid"], signal.SIGKILL)
        fleet.wait_until(lambda found: states(found) == ["ready", "waiting"])
        fleet.control.restart()
        fleet.wait_until(lambda found: not found["fleet"]["is_rolling"])
    assert "the rolling restart stops before instance-0: no weight store stands" in fleet.log
    assert fleet.read_a_page() == "instance-0"
    fleet.control.restart(0)
    found = fleet.wait_until(
        lambda found: states(found) == ["ready", "ready"] and len(found["store"]["leases"] or ()) == 2
    )
    assert (found["store"]["generation"], _starts(found)) == (2, [2, 2])


def test_router_that_failed_for_good_is_given_a_new_start_by_restart(fleet: FakeFleet) -> None:
    with fleet.broken("vllm-router"):
        _kill(fleet, "router")
        found = fleet.wait_until(lambda found: found["router"]["state"] == "failed")
    assert found["router"]["last_error"] == "ended with status 1: ERROR out of order"
    fleet.control.restart(0)
    fleet.wait_until(lambda found: found["router"]["state"] == "ready")
    assert fleet.read_a_page() in ("instance-0", "instance-1")


def test_those_that_read_are_let_be_when_the_store_was_lost_and_the_first_replacement_cannot_start(
    fleet: FakeFleet,
) -> None:
    with fleet.broken("vllm"):
        _kill(fleet, "store")
        found = fleet.wait_until(lambda found: states(found) == ["failed", "ready"])
        wait_for(lambda: "left with a former store's memory until instance-0 reads: instance-1" in fleet.log)
        assert fleet.read_a_page() == "instance-1"
    found = fleet.wait_until(lambda found: found["fleet"]["rolling_stopped_at"] == "instance-0")
    assert (found["store"]["generation"], _starts(found)[1], found["fleet"]["is_rolling"]) == (2, 1, False)
    assert fleet.log.count("they read a store which is gone") == 1
    fleet.control.restart(0)
    fleet.wait_until(
        lambda found: (
            states(found) == ["ready", "ready"]
            and _starts(found)[1] == 2
            and _has_lease_of_its_own(found, 0)
            and _has_lease_of_its_own(found, 1)
            and found["fleet"]["rolling_stopped_at"] is None
        )
    )


def test_rolling_restart_ends_when_the_store_is_lost_in_its_midst(fleet: FakeFleet) -> None:
    with fleet.broken("python"):
        fleet.behave(0, "loads")
        fleet.control.restart()
        fleet.wait_until(lambda found: states(found) == ["starting", "ready"] and _has_lease_of_its_own(found, 0))
        _kill(fleet, "store")
        fleet.wait_until(lambda found: found["store"]["state"] == "failed")
        fleet.behave(0, "")
        fleet.wait_until(lambda found: not found["fleet"]["is_rolling"])
        assert _starts(fleet.control.status()) == [2, 1]
    with pytest.raises(Conflict):
        fleet.control.restart()
        fleet.control.restart()
    fleet.wait_until(lambda found: states(found) == ["ready", "ready"] and found["store"]["generation"] == 2)


def test_rolling_restart_ends_when_another_instance_has_the_turn_and_waits_for_a_lost_store(fleet: FakeFleet) -> None:
    with fleet.broken("python"):
        fleet.behave(0, "stuck")  # and so is not drained at once
        fleet.control.restart(0)
        fleet.wait_until(lambda found: states(found) == ["draining", "ready"])
        _kill(fleet, "store")
        fleet.wait_until(lambda found: found["store"]["state"] == "failed")
        os.kill(fleet.control.status()["instances"][1]["pid"], signal.SIGKILL)
        fleet.wait_until(lambda found: states(found) == ["draining", "waiting"])
        fleet.behave(0, "")
        fleet.wait_until(lambda found: states(found) == ["waiting", "waiting"] and not found["fleet"]["is_rolling"])
    fleet.control.restart(0)
    fleet.wait_until(lambda found: states(found) == ["ready", "ready"])
