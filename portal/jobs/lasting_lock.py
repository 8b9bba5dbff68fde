"""A lock among the processes of one database that lasts as long as its holder, and that a dead process cannot keep.

On SQLite a lock on a file beside the database, on Postgres an advisory lock of one lasting connection.
"""

from __future__ import annotations

import fcntl
import glob
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from portal.db import Database
from portal.errors import Unavailable

_HALF = 2**32


class LastingLock:
    """The lock of one name. Not shared between threads at the same time.

    `name` names the file (`<database>.<name>`), `key` is the advisory lock's, 0 ≤ key < 2^63.
    """

    def __init__(self, database: Database, name: str, key: int) -> None:
        self._database = database
        self._name = name
        self._key = key
        self._file: IO[str] | None = None
        self._connection: Connection | None = None

    def take(self) -> bool:
        """True when this process holds the lock now. Raises Unavailable when the database is away."""
        if self.is_held():
            return True
        return self._take_file() if self._database.is_sqlite else self._take_connection()

    def is_held(self) -> bool:
        """False once the connection that carried the lock is lost."""
        if self._connection is None:
            return self._file is not None
        try:
            self._connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            self._drop_connection()
            return False
        return True

    def release(self, *, is_last: bool = False) -> None:
        """Gives the lock up. `is_last` says that nobody takes one of this name again: its file goes too."""
        if self._file is not None:
            if is_last:
                self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None
        if self._connection is not None:
            with suppress(SQLAlchemyError):  # a lost connection has lost the lock too
                self._connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": self._key})
            self._drop_connection()

    @property
    def _path(self) -> Path:
        return Path(f"{self._database.engine.url.database}.{self._name}")

    def _take_file(self) -> bool:
        file = self._path.open("a")
        os.fchmod(file.fileno(), 0o600)
        if not _locked(file):
            file.close()
            return False
        if not _is_still(self._path, file):  # removed between the two steps, for it was nobody's then
            file.close()
            return self._take_file()
        self._file = file
        return True

    def _take_connection(self) -> bool:
        try:
            self._connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            taken = bool(self._connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": self._key}))
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


def is_taken(session: Session, name: str, key: int) -> bool:
    """Whether some process holds the lock of that name and key; asking does not touch it."""
    bind = session.get_bind()
    if bind.dialect.name == "sqlite":
        return _is_file_locked(Path(f"{bind.engine.url.database}.{name}"))
    # https://www.postgresql.org/docs/current/view-pg-locks.html: a key's halves are classid and objid, with objsubid 1.
    halves = {"high": key // _HALF, "low": key % _HALF}
    held = text(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND classid::bigint = :high AND objid::bigint = :low"
    )
    return session.execute(held, halves).first() is not None


def remove_free_files(database: Database, name_begins: str) -> None:
    """Removes the files of locks whose holders are gone, of names that begin so and are never taken again."""
    if not database.is_sqlite:
        return
    beside = Path(database.engine.url.database or "")
    for path in beside.parent.glob(f"{glob.escape(beside.name)}.{glob.escape(name_begins)}*"):
        with suppress(FileNotFoundError), path.open() as file:
            if _locked(file):
                path.unlink(missing_ok=True)


def _is_file_locked(path: Path) -> bool:
    try:
        with path.open() as file:
            return not _locked(file, shared=True)
    except FileNotFoundError:
        return False


def _is_still(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _locked(file: IO[str], *, shared: bool = False) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
