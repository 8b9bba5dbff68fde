"""What all commands of `app.py admin` share: settings and database opened, words on stderr, tables on stdout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import typer

from portal import logs, settings
from portal.db import Database
from portal.errors import PortalError
from portal.private_files import make_private_folder
from portal.settings import Settings


@contextmanager
def opened() -> Iterator[tuple[Settings, Database]]:
    """The settings and the migrated database; a refusal in the block becomes words on stderr and exit status 2."""
    try:
        configured = settings.load()
        logs.configure(configured.server)
        make_private_folder(configured.store.data_dir)
        database = Database(configured.database_url)
        try:
            _migrate(configured, database)
            yield configured, database
        finally:
            database.dispose()
    except PortalError as error:
        say(f"{error.message} {error.remedy}")
        raise typer.Exit(2) from None


def say(text: str) -> None:
    """Words for the person at the shell, on stderr."""
    typer.echo(text, err=True)


def print_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Heads and rows on stdout, columns aligned."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    for row in [heads, *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def day(moment: datetime | None) -> str:
    """A moment to the minute, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M}Z" if moment else "never"


def _migrate(configured: Settings, database: Database) -> None:
    from portal import schema  # late: Alembic is needed only where a command really runs

    database.ping()
    if not schema.is_current(database):
        schema.upgrade(database)
        folder = configured.store.data_dir.resolve()
        say(f"Note: the database had no tables yet, or older ones, and was migrated (PORTAL_DATA_DIR is {folder}).")
