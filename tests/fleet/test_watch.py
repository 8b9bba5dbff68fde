"""What the portal sees of a fleet over both ways, and what it says when there is nothing to see."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from portal.errors import Unavailable
from portal.fleet.watch import FleetWatch, configured_fleet
from portal.settings import FleetSettings
from tests.fleet.scripted import TOKEN, ServedFleet
from tests.serving.conftest import wait_for


def _watch(settings: FleetSettings) -> FleetWatch:
    fleet = configured_fleet(settings)
    assert fleet is not None
    return fleet


def test_no_fleet_is_watched_when_none_is_configured() -> None:
    assert configured_fleet(FleetSettings()) is None


@pytest.mark.parametrize("over_tcp", [False, True])
def test_instances_are_seen_over_socket_and_tcp(served: ServedFleet, over_tcp: bool) -> None:
    served.supervisor.states[1] = "failed"
    fleet = _watch(served.settings(over_tcp=over_tcp))
    sight = fleet.sight()
    assert sight.trouble is None
    assert sight.status is not None
    assert sight.status.states == {"instance-0": "ready", "instance-1": "failed"}
    assert sight.workers == (1, 2)
    assert sight.words == "1 of 2 instances are ready."
    assert sight.status.instances[1].running is None
    assert TOKEN not in repr((fleet.control, fleet.address, sight))


def test_fleet_is_asked_once_when_many_look_at_it(served: ServedFleet) -> None:
    fleet = _watch(served.settings())
    for _ in range(20):
        assert fleet.sight().status is not None
        assert fleet.glance() is not None
    assert served.supervisor.asked == 1
    assert fleet.sight(since=time.monotonic()).status is not None
    assert served.supervisor.asked == 2


def test_trouble_is_told_with_a_remedy_when_the_fleet_is_away(tmp_path: Path) -> None:
    fleet = _watch(FleetSettings.model_validate({"fleet_url": f"unix://{tmp_path}/control.sock"}))
    assert fleet.glance() is None
    trouble = fleet.sight().trouble
    assert isinstance(trouble, Unavailable)
    assert "does not answer" in trouble.message
    assert "fleet up" in trouble.remedy
    glance = fleet.glance()
    assert glance is not None
    assert (glance.workers, glance.words) == (None, "The fleet does not answer, or not as one.")


def test_nobody_is_held_up_when_the_fleet_hangs(served: ServedFleet) -> None:
    served.supervisor.is_held = True
    fleet = _watch(served.settings())
    trouble = fleet.sight(wait_seconds=0.1).trouble
    assert trouble is not None
    assert "has not answered within" in trouble.message
    assert fleet.glance() is None
    served.supervisor.is_held = False
    wait_for(lambda: (seen := fleet.glance()) is not None and seen.workers == (2, 2))


@pytest.mark.parametrize("token", ["wrong-token-" + "t" * 32])
def test_trouble_is_told_without_the_token_when_it_is_refused(served: ServedFleet, token: str) -> None:
    trouble = _watch(served.settings(over_tcp=True, token=token)).sight().trouble
    assert trouble is not None
    assert "token is missing or wrong" in trouble.message
    assert token not in f"{trouble.message} {trouble.remedy} {trouble.__cause__!r}"


@pytest.mark.parametrize("answer", [{"instances": []}, [1], "x", {"fleet": {"served_name": 5}}])
def test_trouble_is_told_when_what_answers_is_no_fleet(served: ServedFleet, answer: object) -> None:
    served.supervisor.answer = answer
    trouble = _watch(served.settings()).sight().trouble
    assert isinstance(trouble, Unavailable)


def test_rate_is_unknown_until_the_same_process_was_seen_for_a_while(served: ServedFleet) -> None:
    fleet = _watch(served.settings())
    assert fleet.sight().answers_a_minute == {}
    fleet._counts.appendleft((time.monotonic() - 30, {0: (1, 0), 1: (2, 0)}))
    served.supervisor.finished = 20
    rates = fleet.sight(since=time.monotonic()).answers_a_minute
    assert list(rates) == [0], "instance 1 was another process then"
    assert 35 < rates[0] < 41
