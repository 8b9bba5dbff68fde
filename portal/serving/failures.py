"""How often something has failed lately: how long to wait before the next try, and when to stop trying."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from portal.serving.configuration import Patience


class Failures:
    """Failures within a window of time. After `patience.failures` of them it is a crash loop."""

    def __init__(self, patience: Patience, clock: Callable[[], float] = monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._times: deque[float] = deque()
        self.total = 0

    def add(self) -> None:
        """One more, now."""
        self._times.append(self._clock())
        self.total += 1

    def forget(self) -> None:
        """An operator has asked for a new start."""
        self._times.clear()

    @property
    def is_crash_loop(self) -> bool:
        """Whether trying again has no sense any more."""
        self._expire()
        return len(self._times) >= self._patience.failures

    @property
    def backoff_seconds(self) -> float:
        """Doubles with each recent failure, up to the cap."""
        self._expire()
        doubled = self._patience.first_backoff_seconds * 2.0 ** max(0, len(self._times) - 1)
        return min(doubled, self._patience.longest_backoff_seconds)

    def _expire(self) -> None:
        oldest = self._clock() - self._patience.failures_window_seconds
        while self._times and self._times[0] < oldest:
            self._times.popleft()
