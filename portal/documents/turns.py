"""Turns at a few scarce places, so that no owner holds all of them and nobody waits for long: the intake's children."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from portal.errors import Busy

RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True)
class TurnLimits:
    """How many may hold a place and how many may wait for one, over all owners and for one of them."""

    places: int
    places_of_owner: int
    waiting: int
    waiting_of_owner: int
    wait_seconds: float


class Turns:
    """Safe to share between threads. Who waits blocks its thread, so both number and time of waiting are bounded."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._holding: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, owner: str) -> Iterator[None]:
        """A place for the length of the block. Raises Busy when too many wait or the wait was too long."""
        with self._changed:
            if not self._is_free(owner):
                self._wait(owner)
            self._holding[owner] += 1
        try:
            yield
        finally:
            with self._changed:
                _count_down(self._holding, owner)
                self._changed.notify_all()

    def _wait(self, owner: str) -> None:
        limits = self._limits
        if self._waiting.total() >= limits.waiting or self._waiting[owner] >= limits.waiting_of_owner:
            raise _busy()
        self._waiting[owner] += 1
        try:
            if not self._changed.wait_for(lambda: self._is_free(owner), limits.wait_seconds):
                raise _busy()
        finally:
            _count_down(self._waiting, owner)

    def _is_free(self, owner: str) -> bool:
        limits = self._limits
        return self._holding.total() < limits.places and self._holding[owner] < limits.places_of_owner


def _count_down(counts: Counter[str], owner: str) -> None:
    counts[owner] -= 1
    if not counts[owner]:
        del counts[owner]


def _busy() -> Busy:
    return Busy(
        "Too many files are being opened at this moment.",
        code="intake_busy",
        remedy="Send it again in a few seconds, and fewer files at a time; nothing was stored or charged.",
        retry_after_seconds=RETRY_AFTER_SECONDS,
    )
