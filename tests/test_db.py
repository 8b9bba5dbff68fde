"""Transactions: all or nothing, one writer at a time, private files, and a database that fails says why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from structlog.typing import EventDict

from models import Tenant
from models.base import now
from portal import db
from portal.db import Database
from portal.errors import InvalidRequest, SettingsError, Unavailable
from portal.private_files import make_private_folder


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Files come out as open as their maker lets them."""
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_nothing_is_stored_when_the_block_raises(database: Database) -> None:
    with pytest.raises(KeyError), database.transaction() as session:
        session.add(Tenant(name="half"))
        session.flush()
        raise KeyError
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Tenant)) == 0


def test_write_is_refused_as_a_bug_when_only_reading(database: Database) -> None:
    with pytest.raises(DBAPIError), database.reading() as session:
        session.add(Tenant(name="read"))
        session.flush()
    with database.transaction() as session:  # on the same connection of the pool
        session.add(Tenant(name="written"))
    with database.reading() as session:
        assert session.scalars(select(Tenant.name)).all() == ["written"]


@pytest.mark.parametrize("words", ["a\0b", "ä\0b", "a\ud800b"])
def test_text_that_cannot_be_kept_is_refused_whichever_way_it_comes(database: Database, words: str) -> None:
    rows = [{"name": "first"}, {"name": words}]
    for statement in (
        lambda session: session.execute(insert(Tenant), rows),
        lambda session: session.execute(insert(Tenant).returning(Tenant.id), rows),
        lambda session: session.add_all([Tenant(**row) for row in rows]),
        lambda session: session.execute(update(Tenant).values(state_reason=words)),
        lambda session: session.scalar(select(Tenant.id).where(Tenant.name == words)),
        lambda session: session.scalar(select(Tenant.id).where(Tenant.name.in_(["first", words]))),
    ):
        with pytest.raises(InvalidRequest), database.transaction() as session:
            statement(session)
    with pytest.raises(InvalidRequest), database.reading() as session:
        session.scalar(select(Tenant.id).where(Tenant.name == words))
    with database.transaction() as session:  # on the same connection of the pool
        assert session.scalar(select(func.count()).select_from(Tenant)) == 0
        session.add(Tenant(name="ä 日本語 \U0001f600"))


def test_same_rows_are_seen_when_others_write_while_reading(database: Database) -> None:
    count = select(func.count()).select_from(Tenant)
    with database.reading() as session:
        before = session.scalar(count)
        with database.transaction() as other:
            other.add(Tenant(name="meanwhile"))
        assert session.scalar(count) == before == 0
    with database.reading() as session:
        assert session.scalar(count) == 1


def test_time_keeps_its_zone_when_stored(database: Database) -> None:
    moment = now()
    with database.transaction() as session:
        session.add(Tenant(name="zoned", created_at=moment))
    with database.reading() as session:
        assert session.scalar(select(Tenant.created_at)) == moment


def test_no_transaction_is_left_open_when_one_query_is_asked(database: Database) -> None:
    with database.asking() as connection:
        assert connection.execute(select(func.count()).select_from(Tenant)).scalar_one() == 0
        with database.transaction() as session:
            session.add(Tenant(name="acme"))
        assert connection.execute(select(func.count()).select_from(Tenant)).scalar_one() == 1, "no snapshot is held"
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Tenant)) == 1


def test_lost_connections_are_replaced_unnoticed_when_they_were_idle(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, killer = Database(postgres_url), Database(postgres_url)

    def all_are_lost() -> None:
        with ExitStack() as stack:
            sessions = [stack.enter_context(database.transaction()) for _ in range(4)]
            own = [session.scalar(text("SELECT pg_backend_pid()")) for session in sessions]
        with killer.transaction() as session:
            session.execute(text("SELECT pg_terminate_backend(pid, 5000) FROM unnest(:own) AS pid"), {"own": own})

    all_are_lost()
    with pytest.raises(Unavailable, match="connection was lost"):
        database.ping()
    database.ping()
    all_are_lost()
    monkeypatch.setattr(db, "_IDLE_SECONDS", 0.0)
    database.ping()
    database.dispose()
    killer.dispose()


def test_no_write_is_lost_when_many_threads_write(database: Database) -> None:
    with database.transaction() as session:
        session.add(Tenant(id="ten_1", name="0"))

    def grow(_: int) -> None:
        with database.transaction() as session:
            length = func.length(Tenant.name)
            session.execute(update(Tenant).where(Tenant.id == "ten_1", length < 100).values(name=Tenant.name + "x"))

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(grow, range(60)))
    with database.reading() as session:
        assert session.scalar(select(func.length(Tenant.name))) == 61


def test_unavailable_when_no_database_answers() -> None:
    away = Database("postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(Unavailable):
        away.ping()
    with pytest.raises(Unavailable), away.transaction():
        pass


def test_another_try_is_the_remedy_when_all_connections_are_taken(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, logged: list[EventDict]
) -> None:
    monkeypatch.setattr(sqlite_database.engine.pool, "_timeout", 0.01)
    with ExitStack() as readers, pytest.raises(Unavailable, match="busy"):
        for _ in range(100):
            readers.enter_context(sqlite_database.reading())
    assert "limit" in logged[0]["error"]


def test_migration_is_the_remedy_when_a_table_is_missing(database: Database, logged: list[EventDict]) -> None:
    with pytest.raises(Unavailable, match="tables") as refused, database.reading() as session:
        session.execute(text("SELECT 1 FROM nowhere"))
    assert "python app.py migrate" in refused.value.remedy
    assert "nowhere" in logged[0]["error"]


def test_disk_is_named_when_it_is_full(sqlite_database: Database, logged: list[EventDict]) -> None:
    with pytest.raises(Unavailable, match="full") as refused, sqlite_database.transaction() as session:
        session.execute(text("PRAGMA max_page_count=1"))
        session.execute(text("CREATE TABLE large (x)"))
    assert refused.value.code == "storage_full"
    assert "full" in logged[0]["error"]


def test_another_try_is_the_remedy_when_another_process_writes(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch, logged: list[EventDict]
) -> None:
    monkeypatch.setattr(db, "_SQLITE_BUSY_MS", 20)
    other = Database(str(sqlite_database.engine.url))
    with sqlite_database.transaction() as session:
        session.add(Tenant(name="first"))
        session.flush()
        with pytest.raises(Unavailable, match="busy") as refused, other.transaction() as late:
            late.add(Tenant(name="second"))
    other.dispose()
    assert "again" in refused.value.remedy
    assert "locked" in logged[0]["error"]


def test_another_try_is_the_remedy_when_a_table_stays_locked(
    request: pytest.FixtureRequest, logged: list[EventDict]
) -> None:
    postgres: Database = request.getfixturevalue("_postgres")
    with postgres.transaction() as session:
        session.execute(text("LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(Unavailable, match="busy"), postgres.transaction() as late:
            late.execute(text("SET LOCAL lock_timeout = '20ms'"))
            late.execute(text("SELECT 1 FROM tenants"))
    assert "lock timeout" in logged[0]["error"]


def test_no_password_is_logged_when_no_database_answers(logged: list[EventDict]) -> None:
    away = Database("postgresql+psycopg://nobody:hunter2@127.0.0.1:1/none")
    with pytest.raises(Unavailable, match="does not answer"):
        away.ping()
    assert "port 1 failed" in logged[0]["error"]
    assert "hunter2" not in str(logged)


def test_commits_are_on_disk_when_the_power_is_cut(sqlite_database: Database) -> None:
    with sqlite_database.reading() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 2  # FULL: each commit is synced


@pytest.mark.usefixtures("open_umask")
def test_files_are_the_owners_alone_when_the_database_is_made(tmp_path: Path) -> None:
    file = tmp_path / "new" / "data" / "portal.db"
    made = Database(f"sqlite:///{file}")
    assert _mode(file) == 0o600
    with made.transaction() as session:
        session.execute(text("CREATE TABLE t (x)"))
    assert {path.name: _mode(path) for path in file.parent.iterdir()} == {
        "portal.db": 0o600,
        "portal.db-wal": 0o600,
        "portal.db-shm": 0o600,
    }
    assert _mode(file.parent) == _mode(file.parent.parent) == 0o700
    made.dispose()


@pytest.mark.usefixtures("open_umask")
def test_files_are_closed_to_others_when_they_were_open(tmp_path: Path) -> None:
    names = ("portal.db", "portal.db-wal", "portal.db-shm")
    for name in names:
        (tmp_path / name).touch(0o644)
    tmp_path.chmod(0o755)
    Database(f"sqlite:///{tmp_path / 'portal.db'}").dispose()
    assert [_mode(tmp_path / name) for name in names] == [0o600] * 3
    assert _mode(tmp_path) == 0o755  # it may be anybody's


def test_folder_is_closed_to_others_unless_it_is_everybodys(tmp_path: Path) -> None:
    modes = {"new/inner": None, "open": 0o755, "everybodys": 0o1777}
    for name, mode in modes.items():
        if mode is not None:
            (tmp_path / name).mkdir()
            (tmp_path / name).chmod(mode)
        make_private_folder(tmp_path / name)
    assert [_mode(tmp_path / name) for name in ("new", *modes)] == [0o700, 0o700, 0o700, 0o1777]


def test_refusal_says_what_to_do_when_the_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(Unavailable) as refused:
        Database(f"sqlite:///{tmp_path / 'data' / 'portal.db'}")
    assert "PORTAL_DATA_DIR" in refused.value.remedy
    assert str(tmp_path) not in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "sqlite://data/portal.db",
        "mysql://u:hunter2@h/d",
        "portal.db",
        "postgresql+psycopg://u:hunter2@h:port/d",
    ],
)
def test_start_is_refused_when_the_url_names_no_database_we_know(url: str) -> None:
    with pytest.raises(SettingsError, match="PORTAL_DATABASE_URL") as refused:
        Database(url)
    assert "sqlite:////" in refused.value.remedy
    assert "hunter2" not in str(refused.value)
