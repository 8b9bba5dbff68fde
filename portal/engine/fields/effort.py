"""How long the fields of one page may keep a thread: what was asked may be costly, and others' pages wait behind it.

A thread cannot be stopped from outside, so the work looks at the time itself, between fields and between lines. What
lies between two looks is bounded: a line has at most a thousand characters, a pattern at most so many matches on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from portal.errors import EngineError

FIELDS_TOO_COSTLY: Final = "fields_too_costly"
# A page of 1000 lines asked for 90 fields takes one second.
MOST_SECONDS: Final = 3.0


class Effort:
    """The processor time of one thread from now on, in seconds; a busy machine takes nothing of it away."""

    def __init__(self, seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._seconds = seconds
        self._ends_at = clock() + seconds

    def check(self) -> None:
        """Raises EngineError when the time is used up: the page is at fault, and trying again does not help."""
        if self._clock() >= self._ends_at:
            raise EngineError(
                f"Finding the fields took more than {self._seconds:g} seconds of processor time.",
                is_permanent=True,
                code="fields_too_costly",
                remedy="Ask for fewer fields at once, and simplify their patterns: fewer {0,400} and optional parts.",
            )
