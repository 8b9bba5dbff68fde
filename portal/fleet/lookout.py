"""A look at something that may be slow or away: in a thread of its own, one at a time, remembered for all who ask.

Nobody waits longer than they say, and nothing is asked while nobody wants to know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

Seen = TypeVar("Seen")

_log = structlog.get_logger()


@dataclass(frozen=True)
class Look(Generic[Seen]):
    """What was seen, and when the look began (seconds, monotonic)."""

    began_at: float
    seen: Seen


class Lookout(Generic[Seen]):
    """Remembers the newest look. Safe to share between threads.

    `look` turns what it fails by into what it gives; one that ends by a fault of its own is not made again at once.
    """

    def __init__(self, look: Callable[[], Seen], *, name: str) -> None:
        self._look, self._name = look, name
        self._changed = threading.Condition()
        self._is_looking = False
        self._faults = 0
        self._newest: Look[Seen] | None = None

    def at_least(self, began_at: float, *, wait_seconds: float) -> Look[Seen] | None:
        """A look that began at this moment (monotonic) or later; None when there is none within the wait."""
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            faults = self._faults
            while self._newest is None or self._newest.began_at < began_at:
                self._begin()
                rest = deadline - time.monotonic()
                if rest <= 0 or not self._changed.wait(rest) or self._faults > faults:
                    return None
            return self._newest

    def newest(self, *, within_seconds: float, refresh_seconds: float) -> Look[Seen] | None:
        """The newest look without waiting, if it began within that time; begins another past the shorter time."""
        now = time.monotonic()
        with self._changed:
            newest = self._newest
            if newest is None or now - newest.began_at >= refresh_seconds:
                self._begin()
            return newest if newest is not None and now - newest.began_at < within_seconds else None

    def _begin(self) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        began_at = time.monotonic()
        found: Look[Seen] | None = None
        try:
            found = Look(began_at, self._look())
        except Exception:  # noqa: BLE001  the top of a thread: nobody above would log it
            _log.exception("a look failed", what=self._name)
        finally:
            with self._changed:
                self._newest = found or self._newest
                self._faults += found is None
                self._is_looking = False
                self._changed.notify_all()
