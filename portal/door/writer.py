"""Short writes of many requests: on SQLite those that come together share one transaction and one wait for the disk.

SQLite has one writer and waits for the disk at each commit, which bounds how many requests a second are reserved and
settled. So what comes while a transaction is on its way to the disk goes into the next one, all of it together, and a
write that nobody waits for (the end of a request) waits a few milliseconds for one that somebody does. Nobody is told
that a write is done before it is on disk. Postgres does the like by itself, and locks rows, so there each write has a
transaction of its own.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from portal.db import Database
from portal.errors import PortalError, Unavailable

Result = TypeVar("Result")
Work = Callable[[Session], Any]


@dataclass(frozen=True, slots=True)
class _Given:
    work: Work
    done: Future[Any]
    is_patient: bool


_AT_ONCE = 64
_PATIENT_SECONDS = 0.01
_THREADS = 8


class Writer:
    """Takes writes from an event loop. One that raises a PortalError must not have written anything before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._given: queue.SimpleQueue[_Given | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="door")
        self._lock = threading.Lock()
        self._is_closed = False

    def write(self, work: Callable[[Session], Result], *, is_patient: bool = False) -> asyncio.Future[Result]:
        """What the work gives, once it is on disk. It raises what the work raises, and Unavailable.

        Work that `is_patient` may be kept for some milliseconds, for others to share its transaction.
        """
        done: Future[Result] = Future()
        with self._lock:
            if self._is_closed:
                done.set_exception(Unavailable("The portal is stopping."))
            elif not self._database.is_sqlite:
                self._threads.submit(self._alone, work, done)
            else:
                self._given.put(_Given(work, done, is_patient))
                self._start()
        return asyncio.wrap_future(done)

    def close(self) -> None:
        """Ends the threads; what they were given is done first."""
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._given.put(None)
            thread.join()
        self._threads.shutdown(wait=True)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="door-writer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            batch, is_last = self._batch()
            if batch:
                self._together(batch)
            if is_last:
                return

    def _batch(self) -> tuple[list[_Given], bool]:
        """What has come by now, at least one; and whether nothing more will."""
        batch: list[_Given] = []
        until: float | None = None  # a moment past: what has come by now, and no waiting
        while len(batch) < _AT_ONCE:
            try:
                given = self._next(until)
            except queue.Empty:
                return batch, False
            if given is None:
                return batch, True
            batch.append(given)
            if not given.is_patient:
                until = 0.0
            elif until is None:
                until = time.monotonic() + _PATIENT_SECONDS
        return batch, False

    def _next(self, until: float | None) -> _Given | None:
        """The next that comes before then; None at the end. Raises queue.Empty."""
        if until is None:
            return self._given.get()
        left = until - time.monotonic()
        return self._given.get(timeout=left) if left > 0 else self._given.get_nowait()

    def _together(self, batch: list[_Given]) -> None:
        outcomes: list[tuple[Future[Any], Any, PortalError | None]] = []
        try:
            with self._database.transaction() as session:
                for given in batch:
                    outcomes.append((given.done, *_tried(given.work, session)))
        except Unavailable as error:
            for given in batch:
                _tell(given.done, None, error)
            return
        except Exception:  # noqa: BLE001 - whoever is to blame is told; the others must not suffer for it
            for given in batch:
                self._alone(given.work, given.done)
            return
        for done, result, refusal in outcomes:
            _tell(done, result, refusal)

    def _alone(self, work: Work, done: Future[Any]) -> None:
        try:
            with self._database.transaction() as session:
                result = work(session)
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            _tell(done, None, error)
        else:
            _tell(done, result, None)


def _tried(work: Work, session: Session) -> tuple[Any, PortalError | None]:
    try:
        return work(session), None
    except Unavailable:
        raise
    except PortalError as refusal:
        return None, refusal


def _tell(done: Future[Any], result: Any, error: Exception | None) -> None:
    if not done.set_running_or_notify_cancel():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
