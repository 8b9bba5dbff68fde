"""Who may dispatch: at most one process for a database, decided by a lock that a dead process cannot keep.

The holder may take every running page for an orphan; a second process serves pages and the API and stands by.
"""

from __future__ import annotations

from portal.db import Database
from portal.jobs.lasting_lock import LastingLock

_LOCK_KEY = 0x0C2D15BA  # any fixed number other than the schema's


class Ownership(LastingLock):
    """The right to dispatch. Not shared between threads at the same time."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "dispatch", _LOCK_KEY)
