"""Two that work on the same rows at once, without a clock: one goes on when the other waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sqlalchemy import text

from portal.db import Database


def meanwhile(database: Database, act: Callable[[], Any]) -> Future[Any]:
    """Starts `act` in a thread, and comes back when it waits for a lock that the caller holds, or has ended.

    On SQLite it comes back at once: there a writer waits for the other's whole transaction. Ask for the result when
    the caller's has ended.
    """
    pool = ThreadPoolExecutor(1)
    acting = pool.submit(act)
    pool.shutdown(wait=False)
    while not (database.is_sqlite or acting.done() or _is_waited_for(database)):
        time.sleep(0.01)
    return acting


def _is_waited_for(database: Database) -> bool:
    with database.reading() as session:
        return bool(session.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))
