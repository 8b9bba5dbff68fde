"""Brings a database to the newest schema, and says whether it is there: Alembic behind two functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from portal.db import Database
from portal.errors import Unavailable

_FOLDER = Path(__file__).resolve().parent.parent / "migrations"
_LOCK_KEY = 0x0C2F0A7A  # any fixed number: names our advisory lock


def upgrade(database: Database, revision: str = "head") -> None:
    """Migrates up to `revision`. Several processes may call it at once: one migrates, the others wait for it.

    Raises Unavailable; the database is then as it was.
    """
    with migrating(database) as connection:
        command.upgrade(_config(connection), revision)


def downgrade(database: Database, revision: str) -> None:
    """Migrates down to `revision` ("base" is the empty database). For tests and for a release that is taken back.

    Raises Unavailable; the database is then as it was.
    """
    with migrating(database) as connection:
        command.downgrade(_config(connection), revision)


@contextmanager
def migrating(database: Database) -> Iterator[Connection]:
    """A connection for changes of the schema by one process at a time; commits at the end.

    Raises Unavailable when rows would be left that refer to nothing, and changes nothing then.
    """
    with database.rebuilding() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        before = _present_revision(connection)
        yield connection
        if database.is_sqlite and _present_revision(connection) != before:
            _refuse_broken_references(connection)
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
