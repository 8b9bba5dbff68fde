"""Alembic's entry: runs on the connection it is given, or opens PORTAL_DATABASE_URL for the command line."""

from __future__ import annotations

from typing import Literal

from alembic import context
from sqlalchemy import Connection

from models import Base
from models.base import UTCDateTime


def _render(kind: str, item: object, _context: object) -> str | Literal[False]:
    """A migration must not change when the program's own types do, so it names plain SQLAlchemy ones."""
    if kind == "type" and isinstance(item, UTCDateTime):
        return "sa.DateTime(timezone=True)"
    return False


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        render_item=_render,
        # No strong lock outlives its migration, and a crash costs one of them. On SQLite portal.schema has begun, and
        # all of them are one transaction: a file that nobody else writes meanwhile.
        transaction_per_migration=not connection.in_transaction(),
    )
    with context.begin_transaction():
        context.run_migrations()


def _run_from_command_line() -> None:
    from portal.db import Database
    from portal.schema import migrating
    from portal.settings import load

    database = Database(load().database_url)
    with migrating(database) as connection:
        _run(connection)
    database.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    _run_from_command_line()
