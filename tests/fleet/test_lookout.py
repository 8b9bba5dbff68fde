"""A slow look holds nobody up, is not made twice at once, and an old one is not taken for a new one."""

from __future__ import annotations

import threading
import time

import structlog

from portal.fleet.lookout import Lookout
from tests.serving.conftest import wait_for


class Slow:
    """Looks that end when they are let go, numbered."""

    def __init__(self) -> None:
        self.began, self.ended = 0, 0
        self.go_on = threading.Semaphore(0)

    def __call__(self) -> int:
        self.began += 1
        assert self.go_on.acquire(timeout=20)
        self.ended += 1
        return self.ended


def test_caller_is_sent_away_and_one_look_is_made_when_it_is_slow() -> None:
    slow = Slow()
    lookout = Lookout(slow, name="test")
    for _ in range(5):
        assert lookout.at_least(time.monotonic(), wait_seconds=0) is None
        assert lookout.newest(within_seconds=60, refresh_seconds=0) is None
    wait_for(lambda: slow.began == 1)
    slow.go_on.release()
    wait_for(lambda: lookout.newest(within_seconds=60, refresh_seconds=60) is not None)
    assert slow.began == 1


def test_look_that_began_before_is_not_taken_when_a_newer_one_is_asked_for() -> None:
    slow = Slow()
    lookout = Lookout(slow, name="test")
    assert lookout.at_least(time.monotonic(), wait_seconds=0) is None
    wait_for(lambda: slow.began == 1)
    ordered_at = time.monotonic()
    slow.go_on.release(2)
    found = lookout.at_least(ordered_at, wait_seconds=20)
    assert found is not None
    assert (found.seen, slow.began) == (2, 2)
    assert found.began_at >= ordered_at


def test_what_was_seen_long_ago_is_not_told_as_known() -> None:
    lookout = Lookout(lambda: 1, name="test")
    assert lookout.at_least(time.monotonic(), wait_seconds=20) is not None
    assert lookout.newest(within_seconds=60, refresh_seconds=60) is not None
    assert lookout.newest(within_seconds=0, refresh_seconds=60) is None


def test_fault_of_a_look_is_logged_and_it_is_not_made_again_at_once() -> None:
    looks: list[int] = []

    def broken() -> int:
        looks.append(1)
        raise RuntimeError("a fault of our own")

    with structlog.testing.capture_logs() as logged:
        assert Lookout(broken, name="test").at_least(time.monotonic(), wait_seconds=20) is None
    assert len(looks) == 1
    assert [(entry["event"], entry["what"]) for entry in logged] == [("a look failed", "test")]
