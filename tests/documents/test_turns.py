"""Places are shared: one owner never holds all, and who waits is told to come back."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from portal.documents.turns import RETRY_AFTER_SECONDS, TurnLimits, Turns
from portal.errors import Busy


def _turns(*, waiting: int = 0, waiting_of_owner: int = 0, wait_seconds: float = 0.05) -> Turns:
    return Turns(TurnLimits(4, 2, waiting, waiting_of_owner, wait_seconds))


def _refused(turns: Turns, owner: str) -> Busy:
    with pytest.raises(Busy) as refusal, turns.turn(owner):
        pass
    return refusal.value


def test_owner_is_refused_past_its_places_and_another_is_not() -> None:
    turns = _turns()
    with turns.turn("a"), turns.turn("a"):
        refusal = _refused(turns, "a")
        with turns.turn("b"):
            pass
    assert (refusal.code, refusal.kind, refusal.retry_after_seconds) == ("intake_busy", "busy", RETRY_AFTER_SECONDS)
    with turns.turn("a"):
        pass


def test_everybody_is_refused_when_all_places_are_taken() -> None:
    turns = _turns(waiting=1, waiting_of_owner=1)
    with ExitStack() as held:
        for owner in ("a", "a", "b", "b"):
            held.enter_context(turns.turn(owner))
        assert _refused(turns, "c").code == "intake_busy"


def test_place_is_given_to_who_waits_when_it_frees() -> None:
    turns = _turns(waiting=1, waiting_of_owner=1, wait_seconds=20)
    served = threading.Event()

    def wait() -> None:
        with turns.turn("a"):
            served.set()

    waiter = threading.Thread(target=wait)
    with turns.turn("a"):
        with turns.turn("a"):
            waiter.start()
        assert served.wait(20)
    waiter.join(20)


def test_place_frees_when_its_holder_fails() -> None:
    turns = _turns()
    for _ in range(3):
        with pytest.raises(KeyError), turns.turn("a"), turns.turn("a"):
            raise KeyError
