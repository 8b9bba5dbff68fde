"""Brings a database to the newest schema, and says whether it is there: Alembic behind two functions."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from portal.db import Database

_FOLDER = Path(__file__).resolve().parent.parent / "migrations"
_LOCK_KEY = 0x0C2F0A7A  # any fixed number: names our advisory lock


def upgrade(database: Database, revision: str = "head") -> None:
    """Migrates up to `revision`. Several processes may call it at once: one migrates, the others wait for it."""
    with database.connecting(writes=True) as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        connection.commit()


def downgrade(database: Database, revision: str) -> None:
    """Migrates down to `revision` ("base" is the empty database). For tests and for a release that is taken back."""
    with database.connecting() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
        connection.commit()


def is_current(database: Database) -> bool:
    """True when the database carries the newest migration of this program."""
    with database.connecting() as connection:
        present = MigrationContext.configure(connection).get_current_revision()
    return present == ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    return config
