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
from alembic.script import ScriptDirectory
from sqlalchemy import delete, inspect, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from models import AuditEntry, Base, DeletionRecord, Job, LedgerEntry, Member, Page, Reservation, SearchText, Tenant
from portal import schema
from portal.db import Database
from portal.errors import Unavailable
from portal.jobs.search import folded, matches
from portal.jobs.stray_reservations import strays
from portal.usage import books
from portal.usage.receipts import receipts
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


@pytest.mark.parametrize("table", [AuditEntry, DeletionRecord, LedgerEntry])
def test_rows_cannot_be_changed_or_deleted_when_migrated(empty_database: Database, table: type[Base]) -> None:
    schema.upgrade(empty_database)
    rows = {
        AuditEntry: AuditEntry(action="a.done", actor="kept"),
        DeletionRecord: DeletionRecord(kind="job", target="job_1", reason="asked", actor="kept", gone={}),
        LedgerEntry: LedgerEntry(
            reservation_id="res_1",
            task="extract",
            engine="kept",
            kind="reserved",
            reason="-",
            pages=1,
            day="",
            month="",
        ),
    }
    with empty_database.transaction() as session:
        rows[table].tenant_id = "ten_1"
        session.add(rows[table])
    for statement in (update(table).values(tenant_id="ten_2"), delete(table)):
        with pytest.raises(DBAPIError, match="never changed"), empty_database.transaction() as session:
            session.execute(statement)
    with empty_database.reading() as session:
        assert session.execute(select(table.__table__.c.tenant_id)).scalars().all() == ["ten_1"]


_BEFORE_HISTORY = "c58499d9da7b"
_ROWS = (
    "INSERT INTO tenants (id, name, created_at) VALUES ('ten_1', 'acme', '2026-01-01')",
    "INSERT INTO documents (id, tenant_id, file_name, media_type, byte_size, sha256, page_count, created_at)"
    " VALUES ('doc_1', 'ten_1', 'März  2026.pdf', 'application/pdf', 9, '-', 2, '2026-01-01')",
    "INSERT INTO jobs (id, tenant_id, task, prompt, engine, engine_profile, state, page_count, created_at)"
    " VALUES ('job_1', 'ten_1', 'extract', '{}', 'fake', '1', 'partial', 2, '2026-01-01')",
    "INSERT INTO pages (id, tenant_id, job_id, document_id, position, number, state, attempt, is_blank, result)"
    """ VALUES ('pag_1', 'ten_1', 'job_1', 'doc_1', 1, 1, 'succeeded', 1, false, '{"text": "Gesamt\\n27,09"}')""",
    "INSERT INTO pages (id, tenant_id, job_id, document_id, position, number, state, attempt, is_blank, result)"
    " VALUES ('pag_2', 'ten_1', 'job_1', 'doc_1', 2, 2, 'failed', 1, false, NULL)",
)


def test_jobs_of_before_are_found_when_migrated_and_stay_when_taken_back(empty_database: Database) -> None:
    schema.upgrade(empty_database, _BEFORE_HISTORY)
    with empty_database.engine.begin() as connection:
        for row in _ROWS:
            connection.exec_driver_sql(row)
    schema.upgrade(empty_database)
    with empty_database.reading() as session:
        texts = session.execute(select(SearchText.job_id, SearchText.page_id, SearchText.folded)).all()
        assert set(texts) == {("job_1", None, folded("März 2026.pdf")), ("job_1", "pag_1", "gesamt 27,09")}
        for words, found in (("MÄRZ gesamt", ["job_1"]), ("april", [])):
            matching = matches(empty_database, "ten_1", words)
            assert session.scalars(select(Job.id).where(Job.tenant_id == "ten_1", matching)).all() == found
        assert session.scalars(select(Page.attempts_before_retry)).all() == [0, 0]
    schema.downgrade(empty_database, _BEFORE_HISTORY)
    with empty_database.engine.connect() as connection:
        assert connection.execute(text("SELECT id FROM pages ORDER BY id")).scalars().all() == ["pag_1", "pag_2"]


_DAMAGED = (
    "INSERT INTO pages (id, tenant_id, job_id, document_id, position, number, state, attempt, is_blank, result)"
    " VALUES ('pag_{0}', 'ten_1', 'job_1', 'doc_1', {0}, {0}, 'succeeded', 1, false, '{1}')"
)


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800"])
def test_text_that_the_database_cannot_hold_is_filled_in_too(empty_database: Database, escape: str) -> None:
    schema.upgrade(empty_database, _BEFORE_HISTORY)
    damaged = _DAMAGED.format(3, f'{{"text": "half {escape} x", "lines": []}}')
    with empty_database.engine.begin() as connection:
        for row in (*_ROWS, damaged, _DAMAGED.format(4, '{"lines": []}')):
            connection.exec_driver_sql(row)
    schema.upgrade(empty_database)
    with empty_database.reading() as session:
        texts = dict(session.execute(select(SearchText.page_id, SearchText.folded)).all())
    assert texts == {None: folded("März 2026.pdf"), "pag_1": "gesamt 27,09", "pag_3": "half \ufffd x"}


_BEFORE_FOLDED = "7d1f0c3a52be"


def test_tenants_alike_but_for_case_stay_when_migrated_and_no_third_comes(empty_database: Database) -> None:
    schema.upgrade(empty_database, _BEFORE_FOLDED)
    with empty_database.engine.begin() as connection:
        for tenant_id, name, day in (("ten_1", "alpha", 2), ("ten_2", "Alpha", 1), ("ten_3", "Beta", 3)):
            values = f"('{tenant_id}', '{name}', '2026-01-0{day}')"
            connection.exec_driver_sql(f"INSERT INTO tenants (id, name, created_at) VALUES {values}")
    schema.upgrade(empty_database)
    with empty_database.reading() as session:
        rows = session.execute(select(Tenant.name, Tenant.name_folded).order_by(Tenant.id)).all()
    assert rows == [("alpha", "alpha (ten_1)"), ("Alpha", "alpha"), ("Beta", "beta")]
    with pytest.raises(IntegrityError), empty_database.transaction() as session:
        session.add(Tenant(name="ALPHA"))
    schema.downgrade(empty_database, _BEFORE_FOLDED)
    with empty_database.engine.connect() as connection:
        names = connection.execute(text("SELECT name FROM tenants ORDER BY id")).scalars().all()
    assert names == ["alpha", "Alpha", "Beta"]


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


def _add_migration(folder: Path, upgrade: str, downgrade: str, *, name: str = "later") -> None:
    head = ScriptDirectory(str(folder)).get_current_head()
    (folder / "versions" / f"{name}.py").write_text(
        f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "{name}", "{head}", None, None

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


_DIE = "import os; os._exit(9)"
_UPGRADE = """
import sys
from pathlib import Path
from portal import db, schema
schema._FOLDER = Path(sys.argv[2])
schema.upgrade(db.Database(sys.argv[1]))
"""


def test_upgrade_goes_on_when_the_process_died_between_two_migrations(
    empty_database: Database, migrations: Path
) -> None:
    schema.upgrade(empty_database)
    was = ScriptDirectory(str(migrations)).get_current_head()
    _add_migration(migrations, "op.create_table('first', sa.Column('id', sa.Integer()))", "op.drop_table('first')")
    _add_migration(migrations, _DIE, "pass", name="last")
    url = empty_database.engine.url.render_as_string(hide_password=False)
    upgrade = [sys.executable, "-c", _UPGRADE, url, str(migrations)]
    assert subprocess.run(upgrade, timeout=60, check=False).returncode == 9
    with empty_database.connecting() as connection:
        # SQLite takes all back, Postgres keeps what was committed: neither has half a migration.
        assert schema._present_revision(connection) == (was if empty_database.is_sqlite else "later")
        assert ("first" in inspect(connection).get_table_names()) is not empty_database.is_sqlite
    last = migrations / "versions" / "last.py"
    last.write_text(last.read_text().replace(_DIE, "op.execute('INSERT INTO first VALUES (1)')"))
    both = [subprocess.Popen(upgrade) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert schema.is_current(empty_database)
    with empty_database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM first")) == 1
    schema.downgrade(empty_database, "-2")
    with empty_database.connecting() as connection:
        assert schema._present_revision(connection) == was


def test_lock_is_given_back_when_a_migration_fails(empty_database: Database, migrations: Path) -> None:
    schema.upgrade(empty_database)
    _add_migration(migrations, "op.execute('SELECT 1 FROM nowhere')", "pass")
    for _ in range(2):
        with pytest.raises(Unavailable):
            schema.upgrade(empty_database)
    if not empty_database.is_sqlite:
        with empty_database.connecting() as connection:
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            assert connection.execute(text(held)).scalar() == 0


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


_BEFORE_LEDGER = "7d1f0c3a52be"
# job → (state, is it a sample, pages as (state, outcome of its usage entry or None, charged pages))
_OLD_JOBS: dict[str, tuple[str, bool, list[tuple[str, str | None, int]]]] = {
    "job_read": (
        "succeeded",
        False,
        [("succeeded", "read", 1), ("succeeded", "blank", 0), ("succeeded", "truncated", 0)],
    ),
    "job_part": ("partial", False, [("succeeded", "read", 1), ("failed", "failed", 0)]),
    "job_bad": ("failed", False, [("failed", "failed", 0)]),
    "job_stop": ("cancelled", False, [("succeeded", "read", 1), ("cancelled", None, 0), ("cancelled", None, 0)]),
    "job_run": ("running", False, [("succeeded", "read", 1), ("running", None, 0), ("queued", None, 0)]),
    "job_wait": ("queued", False, [("queued", None, 0)]),
    "job_demo": ("succeeded", True, [("succeeded", "read", 0), ("succeeded", "read", 0)]),
    "job_show": ("running", True, [("succeeded", "read", 0), ("queued", None, 0)]),
    "job_gone": ("deleted", False, [("succeeded", "read", 1), ("succeeded", "blank", 0)]),
}


def _old_rows() -> Iterator[str]:
    for tenant, name in (("ten_1", "acme"), ("ten_2", "idle")):
        yield f"INSERT INTO tenants (id, name, created_at) VALUES ('{tenant}', '{name}', '2026-01-01')"
    yield (
        "INSERT INTO documents (id, tenant_id, file_name, media_type, byte_size, sha256, page_count, created_at)"
        " VALUES ('doc_1', 'ten_1', 'a.pdf', 'application/pdf', 9, '-', 9, '2026-01-01')"
    )
    for day, (job, (state, is_sample, pages)) in enumerate(_OLD_JOBS.items(), start=1):
        at = f"2026-11-{day:02d} 23:59:00"
        if state != "deleted":
            ended = "NULL" if state in ("queued", "running") else f"'{at}'"
            yield (
                "INSERT INTO jobs (id, tenant_id, task, prompt, engine, engine_profile, state, page_count, is_sample,"
                f" created_at, finished_at) VALUES ('{job}', 'ten_1', 'extract', '{{}}', 'fake', '1', '{state}',"
                f" {len(pages)}, {str(is_sample).lower()}, '{at}', {ended})"
            )
        for number, (page_state, outcome, charged) in enumerate(pages, start=1):
            page = f"pag_{job}{number}"
            if state != "deleted":
                yield (
                    "INSERT INTO pages (id, tenant_id, job_id, document_id, position, number, state, attempt, is_blank)"
                    f" VALUES ('{page}', 'ten_1', '{job}', 'doc_1', {number}, {number}, '{page_state}', 1, false)"
                )
            if outcome is not None:
                yield (
                    "INSERT INTO usage_entries (id, tenant_id, job_id, page_id, task, engine, outcome, pages,"
                    f" created_at) VALUES ('use_{job}{number}', 'ten_1', '{job}', '{page}', 'extract', 'fake',"
                    f" '{outcome}', {charged}, '{at}')"
                )


def test_what_was_charged_stays_when_migrated_to_the_ledger_and_back(empty_database: Database) -> None:
    entries = text(
        "SELECT tenant_id, job_id, page_id, outcome, pages, CAST(created_at AS text) FROM usage_entries"
        " ORDER BY page_id"
    )
    schema.upgrade(empty_database, _BEFORE_LEDGER)
    with empty_database.engine.begin() as connection:
        for row in _old_rows():
            connection.exec_driver_sql(row)
        before = connection.execute(entries).all()
    schema.upgrade(empty_database)
    with empty_database.reading() as session:
        acme, idle = books.check(session)
        assert (acme.faults, idle.faults) == ([], [])
        counted = [page for _, is_sample, rows in _OLD_JOBS.values() if not is_sample for page in rows]
        asked, charged = len(counted), sum(pages for _, _, pages in counted)
        waiting = sum(state in ("queued", "running") for state, _, _ in counted)
        assert acme.entries == (asked, charged, asked - charged - waiting)
        assert (acme.pending, waiting, idle.entries) == (waiting, 3, (0, 0, 0))
        assert strays(session) == {}
        is_open = select(Reservation.job_id).where(Reservation.closed_at.is_(None)).order_by(Reservation.job_id)
        assert session.scalars(is_open).all() == ["job_run", "job_wait"]
        bills = receipts(session, "ten_1", list(_OLD_JOBS))
        assert {job: bill.charged for job, bill in bills.items()} == {
            job: sum(pages for _, _, pages in rows) for job, (_, _, rows) in _OLD_JOBS.items()
        }
    schema.downgrade(empty_database, _BEFORE_LEDGER)
    with empty_database.engine.connect() as connection:
        assert connection.execute(entries).all() == before
