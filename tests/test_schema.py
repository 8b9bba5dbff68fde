"""Migrated from empty = created from the tables, on both databases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from models import Base
from portal import schema
from portal.db import Database


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
        yield database
        database.dispose()
        return
    url = request.getfixturevalue("postgres_url")
    admin = Database(url)
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE migrated"))
    database = Database(url.replace("/postgres?", "/migrated?"))
    yield database
    database.dispose()
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("DROP DATABASE migrated"))
    admin.dispose()


def test_migrated_schema_equals_tables_when_started_from_empty(empty_database: Database) -> None:
    schema.upgrade(empty_database)
    with empty_database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    assert schema.is_current(empty_database)


def test_checks_and_uniques_are_the_same_when_migrated(empty_database: Database, tmp_path: Path) -> None:
    schema.upgrade(empty_database)
    created = Database(f"sqlite:///{tmp_path / 'created.db'}")
    Base.metadata.create_all(created.engine)
    assert _constraints(empty_database) == _constraints(created)
    created.dispose()


def _constraints(database: Database) -> set[tuple[str, str]]:
    inspector = inspect(database.engine)
    return {
        (table, str(constraint["name"]))
        for table in Base.metadata.tables
        for constraint in [*inspector.get_check_constraints(table), *inspector.get_unique_constraints(table)]
    }


def test_database_is_empty_again_when_migrated_down(empty_database: Database) -> None:
    schema.upgrade(empty_database)
    schema.downgrade(empty_database, "base")
    assert set(inspect(empty_database.engine).get_table_names()) <= {"alembic_version"}


def test_all_succeed_when_three_processes_migrate_at_once(empty_database: Database) -> None:
    program = "import sys; from portal import db, schema; schema.upgrade(db.Database(sys.argv[1]))"
    url = empty_database.engine.url.render_as_string(hide_password=False)
    processes = [subprocess.Popen([sys.executable, "-c", program, url]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert schema.is_current(empty_database)
