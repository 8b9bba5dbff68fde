"""Migrated from empty = created from the tables, on both databases."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from models import Base, Member, Tenant
from portal import schema
from portal.db import Database
from portal.errors import Unavailable
from tests.running_portal import ROOT


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


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the migrations that a test may add to."""
    folder = tmp_path / "migrations"
    shutil.copytree(ROOT / "migrations", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(schema, "_FOLDER", folder)
    return folder


def _add_migration(folder: Path, upgrade: str, downgrade: str) -> None:
    with_head = next((folder / "versions").glob("*.py")).read_text()
    head = next(line.split('"')[1] for line in with_head.splitlines() if line.startswith("revision = "))
    (folder / "versions" / "later.py").write_text(
        f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "later", "{head}", None, None

def upgrade() -> None:
    {upgrade}

def downgrade() -> None:
    {downgrade}
"""
    )


def _fill(database: Database) -> None:
    with database.transaction() as session:
        session.add(Tenant(id="ten_1", name="acme"))
        session.flush()
        session.add(Member(tenant_id="ten_1", email="a@acme.example", password_hash="x", role="owner"))


def _rebuilt(length: int) -> str:
    return (
        'with op.batch_alter_table("tenants", recreate="auto") as batch:\n'
        f'        batch.alter_column("name", existing_type=sa.String(), type_=sa.String({length}))'
    )


def test_rows_stay_when_a_table_that_others_refer_to_is_rebuilt(empty_database: Database, migrations: Path) -> None:
    schema.upgrade(empty_database)
    _fill(empty_database)
    _add_migration(migrations, _rebuilt(120), _rebuilt(100))
    schema.upgrade(empty_database)
    assert schema.is_current(empty_database)
    schema.downgrade(empty_database, "-1")
    with empty_database.reading() as session:
        names = session.execute(text("SELECT name, email FROM tenants JOIN members ON tenant_id = tenants.id")).all()
        if empty_database.is_sqlite:
            assert session.scalar(text("PRAGMA foreign_keys")) == 1
    assert names == [("acme", "a@acme.example")]


def test_migration_is_taken_back_when_it_leaves_rows_that_refer_to_nothing(tmp_path: Path, migrations: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    schema.upgrade(database)
    _fill(database)
    _add_migration(migrations, "op.execute('DELETE FROM tenants')", "pass")
    with pytest.raises(Unavailable, match="'members'"):
        schema.upgrade(database)
    assert not schema.is_current(database)
    with database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM tenants")) == 1
    database.dispose()


def test_new_migration_has_no_generated_comments(tmp_path: Path, migrations: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    schema.upgrade(database)
    with database.transaction() as session:
        session.execute(text("DROP TABLE audit_entries"))
    with database.connecting() as connection:
        command.revision(schema._config(connection), "add_something", autogenerate=True)
    [made] = (migrations / "versions").glob("*_add_something.py")
    assert "op.create_table" in made.read_text()
    for script in (migrations / "versions").glob("*.py"):
        assert "###" not in script.read_text()
        compile(script.read_text(), script.name, "exec")
    database.dispose()
