"""Brings a database to the newest schema, and says whether it is there: Alembic behind two functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from portal.db import Database
from portal.errors import Unavailable

_FOLDER = Path(__file__).resolve().parent.parent / "migrations"
_LOCK_KEY = 0x0C2F0A7A  # any fixed number: names our advisory lock


def upgrade(database: Database, revision: str = "head") -> None:
    """Migrates up to `revision`. Several processes may call it at once: one migrates, the others wait for it.

    Raises Unavailable; the database is then as it was, on Postgres as the last migration that succeeded left it: the
    next call goes on from there.
    """
    with migrating(database) as connection:
        command.upgrade(_config(connection), revision)


def downgrade(database: Database, revision: str) -> None:
    """Migrates down to `revision` ("base" is the empty database). For tests and for a release that is taken back.

    Raises Unavailable as `upgrade` does.
    """
    with migrating(database) as connection:
        command.downgrade(_config(connection), revision)


@contextmanager
def migrating(database: Database) -> Iterator[Connection]:
    """A connection for changes of the schema by one process at a time.

    On SQLite it is in a transaction that is committed at the end; on Postgres it is in none, so that each migration
    has its own. Raises Unavailable when rows would be left that refer to nothing (SQLite), and changes nothing then.
    """
    with database.rebuilding() as connection, _alone(connection, is_sqlite=database.is_sqlite):
        yield connection


def _alone(connection: Connection, *, is_sqlite: bool) -> AbstractContextManager[None]:
    return _in_one_transaction(connection) if is_sqlite else _under_lock(connection)


@contextmanager
def _in_one_transaction(connection: Connection) -> Iterator[None]:
    """SQLite: the first statement takes the file's only right to write (BEGIN IMMEDIATE), until the commit."""
    before = _present_revision(connection)
    yield
    if _present_revision(connection) != before:
        _refuse_broken_references(connection)
    connection.commit()


@contextmanager
def _under_lock(connection: Connection) -> Iterator[None]:
    """Postgres: a lock of the session, which outlives the transaction of each migration and not the process."""
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK_KEY})
    connection.commit()
    try:
        yield
        connection.commit()
    finally:
        with suppress(SQLAlchemyError):  # a lost connection has lost the lock too
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK_KEY})
            connection.commit()


def _refuse_broken_references(connection: Connection) -> None:
    broken = connection.execute(text("PRAGMA foreign_key_check")).first()
    if broken is not None:
        raise Unavailable(
            f"The migration would leave rows of the table '{broken[0]}' that refer to missing rows of '{broken[2]}'.",
            remedy="Nothing was changed. Keep the former release running and report this to the portal's makers.",
        )


def is_current(database: Database) -> bool:
    """True when the database carries the newest migration of this program."""
    with database.connecting() as connection:
        present = _present_revision(connection)
        return present == ScriptDirectory.from_config(_config(connection)).get_current_head()


def _present_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    return config
