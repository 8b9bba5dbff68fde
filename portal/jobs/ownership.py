"""Who may dispatch: at most one process for a database, decided by a lock that a dead process cannot keep.

On SQLite a lock on a file beside the database, on Postgres an advisory lock of one lasting connection. The
holder may take every running page for an orphan; a second process serves pages and the API and stands by.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from portal.db import Database
from portal.errors import Unavailable

_LOCK_KEY = 0x0C2D15BA  # any fixed number other than the schema's


class Ownership:
    """The right to dispatch. Not shared between threads at the same time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._file: IO[str] | None = None
        self._connection: Connection | None = None

    def take(self) -> bool:
        """True when this process holds the right now. Raises Unavailable when the database is away."""
        if self.is_held():
            return True
        return self._take_file() if self._database.is_sqlite else self._take_connection()

    def is_held(self) -> bool:
        """False once the connection that carried the right is lost."""
        if self._connection is None:
            return self._file is not None
        try:
            self._connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            self._drop_connection()
            return False
        return True

    def release(self) -> None:
        """Gives the right up."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._connection is not None:
            with suppress(SQLAlchemyError):  # a lost connection has lost the lock too
                self._connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK_KEY})
            self._drop_connection()

    def _take_file(self) -> bool:
        path = Path(f"{self._database.engine.url.database}.dispatch")
        file = path.open("a")
        os.chmod(path, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def _take_connection(self) -> bool:
        try:
            self._connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            taken = bool(self._connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK_KEY}))
        except SQLAlchemyError as error:
            self._drop_connection()
            raise Unavailable("The database does not answer.") from error
        if not taken:
            self._connection.close()
            self._connection = None
        return taken

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.invalidate()  # never back into the pool: it may carry the lock
                self._connection.close()
            self._connection = None
