"""That a process lives: what it holds for requests under way is nobody's once it is gone, and not a moment before.

A process takes a lock of its own name before it reserves, and writes that name (the holder) beside what it reserves. A
dead process cannot keep the lock, so the sweep need not wait for any deadline.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from sqlalchemy.orm import Session

from portal.db import Database
from portal.errors import Unavailable
from portal.jobs.lasting_lock import LastingLock, is_taken, remove_free_files

LOOK_SECONDS = 5.0
_NAME = "holder-"
_HOLDER = re.compile(r"[0-9a-f]{15}", re.ASCII)  # 60 bits: fits an advisory lock's key


class Presence:
    """The sign of life of the process; any thread may ask for it."""

    def __init__(self, database: Database) -> None:
        self._holder = secrets.token_hex(8)[:15]
        self._lock = LastingLock(database, _name(self._holder), int(self._holder, 16))
        self._guard = threading.Lock()
        self._looked_at = float("-inf")
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None

    def holder(self) -> str:
        """The name to write beside what is reserved, its lock held. Raises Unavailable."""
        with self._guard:
            if time.monotonic() - self._looked_at > LOOK_SECONDS:
                self._take()
            if self._watch is None:
                self._watch = threading.Thread(target=self._keep, name="presence", daemon=True)
                self._watch.start()
        return self._holder

    def end(self) -> None:
        """Gives the sign of life up: nothing is under way any more."""
        self._ended.set()
        with self._guard:
            self._lock.release(is_last=True)

    def _take(self) -> None:
        if not self._lock.take():
            raise Unavailable("The portal could not take its own lock.")
        self._looked_at = time.monotonic()

    def _keep(self) -> None:
        """A connection that is lost has lost the lock: it is taken again although nobody asks meanwhile."""
        while not self._ended.wait(LOOK_SECONDS):
            with self._guard, suppress(Unavailable):
                if not self._ended.is_set():
                    self._take()


def gone(session: Session, holders: Iterable[str]) -> set[str]:
    """Those of the holders whose process does not live any more."""
    return {holder for holder in holders if not _lives(session, holder)}


def forget_gone(database: Database) -> None:
    """Removes what processes that are gone have left beside the database."""
    remove_free_files(database, _NAME)


def _lives(session: Session, holder: str) -> bool:
    return _HOLDER.fullmatch(holder) is not None and is_taken(session, _name(holder), int(holder, 16))


def _name(holder: str) -> str:
    return f"{_NAME}{holder}"
