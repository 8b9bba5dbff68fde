"""The database: one engine, two ways in, and every difference between SQLite and Postgres.

`transaction()` writes: BEGIN IMMEDIATE on SQLite, one writer at a time in this process (the command line may
write beside a running server, so busy_timeout covers other processes). `reading()` sees one consistent
snapshot, cannot write and never blocks a writer. Services take a Session and never commit; use cases commit once,
here. What the driver reports becomes Unavailable with its cause in words; the driver's own words go to the log. A text
that cannot be kept (portal/texts.py) is refused in each statement, on both databases, as the caller's mistake.
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import URL, ColumnElement, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, Session
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from portal.errors import InvalidRequest, SettingsError, TooSlow, Unavailable
from portal.private_files import make_private_file
from portal.texts import is_storable

log = structlog.get_logger()

_SQLITE_BUSY_MS = 15_000
_SQLITE_STEPS = 1000  # of its machine, between two looks at the clock: a text that is searched is a dozen
_CHECKPOINT_BUSY_MS = 200
_POSTGRES_CONNECTIONS = 8
_IDLE_SECONDS = 1.0  # after which a connection is asked whether it lives
_AUTOCOMMIT: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}
_DRIVERS = {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}

_other_schema = partial(
    Unavailable,
    "The database does not have the tables that this program expects.",
    remedy="Tell the operator to run: python app.py migrate",
)
_disk_full = partial(
    Unavailable,
    "The database's disk is full.",
    code="storage_full",
    remedy="Nothing was stored or charged. Tell the operator to free space where the database lies.",
)
_busy = partial(
    Unavailable,
    "The database is busy with other work.",
    remedy="Nothing was stored or charged. Try again in a few seconds.",
    retry_after_seconds=5,
)
_too_slow = partial(TooSlow, "The database took too long to answer.")
_not_writable = partial(
    Unavailable,
    "The database cannot be written.",
    remedy="Tell the operator to let the portal's user write the database's file and folder.",
)
# By SQLite's primary result codes (https://sqlite.org/rescode.html) and Postgres' SQLSTATEs
# (https://www.postgresql.org/docs/current/errcodes-appendix.html). SQLite has no code of its own for a missing
# table or column: SQLITE_ERROR says that the statement does not fit the schema.
_FAULTS: dict[int | str | None, Callable[[], Unavailable]] = {
    sqlite3.SQLITE_ERROR: _other_schema,
    "42P01": _other_schema,
    "42703": _other_schema,
    sqlite3.SQLITE_FULL: _disk_full,
    "53100": _disk_full,
    sqlite3.SQLITE_BUSY: _busy,
    sqlite3.SQLITE_LOCKED: _busy,
    "40001": _busy,
    "40P01": _busy,
    "55P03": _busy,
    sqlite3.SQLITE_READONLY: _not_writable,
    "25006": _not_writable,
    sqlite3.SQLITE_INTERRUPT: _too_slow,
    "57014": _too_slow,
}


class Database:
    """Opens sessions. Cheap to build: connects at first use. Safe to share between threads.

    An SQLite file and its folder are made at once, for the owner alone. Raises SettingsError for another kind of
    database, Unavailable where the file cannot be made.
    """

    def __init__(self, url: str) -> None:
        parsed = _checked(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        if self.is_sqlite:
            # SQLite gives its two helpers the mode of the first when it makes them.
            make_private_file(Path(parsed.database or ""), helpers=("-wal", "-shm"))
        self.engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)
        event.listen(self.engine, "before_cursor_execute", _refuse_unstorable)
        # One query is a snapshot by itself; without a transaction around it Postgres is spoken to once, not four times.
        self._asking = self.engine.execution_options(begin=None, **({} if self.is_sqlite else _AUTOCOMMIT))
        self._writer: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A session that commits when the block ends and rolls back when it raises.

        Raises Unavailable when the database does not answer; nothing is half done then.
        """
        with self._writer, self.connecting(writes=True) as connection:
            with Session(connection, expire_on_commit=False) as session, session.begin():
                yield session
            connection.commit()

    @contextmanager
    def reading(self, *, seconds: float | None = None) -> Iterator[Session]:
        """A session for queries only, all of which see the same snapshot. Raises Unavailable.

        `seconds` bounds each query on Postgres, and all of them together on SQLite: past it TooSlow is raised and the
        database works on it no more. A write in it is a bug and raises the driver's error.
        """
        with self._translated(may_write=False), self.engine.connect() as connection, self._reading_only(connection):
            bounded = nullcontext() if seconds is None else self._bounded(connection, seconds)
            with bounded, Session(connection, expire_on_commit=False) as session:
                yield session
            connection.rollback()

    @contextmanager
    def asking(self) -> Iterator[Connection]:
        """A bare connection for one query, of what is asked at each request. Raises Unavailable."""
        with self._translated(may_write=False), self._asking.connect() as connection:
            yield connection

    @contextmanager
    def connecting(self, *, writes: bool = False) -> Iterator[Connection]:
        """A bare connection, for locks and questions. `writes` begins IMMEDIATE on SQLite. Raises Unavailable."""
        with self._translated(), self.engine.connect() as connection:
            if writes and self.is_sqlite:
                connection.execution_options(begin="IMMEDIATE")
            yield connection

    @contextmanager
    def rebuilding(self) -> Iterator[Connection]:
        """A writing connection that may drop a table which others refer to, as SQLite's table rebuilds do.

        SQLite checks no foreign keys on it: who commits calls `PRAGMA foreign_key_check` first. Raises Unavailable.
        https://sqlite.org/lang_altertable.html#otheralter
        """
        with self.connecting(writes=True) as connection:
            off = _switched(connection, "foreign_keys", on=False) if self.is_sqlite else nullcontext()
            with off:
                yield connection

    def contains(self, column: ColumnElement[str] | InstrumentedAttribute[str], part: str) -> ColumnElement[bool]:
        """The condition that the column's text has `part` in it, byte for byte.

        LIKE is not that: SQLite's takes a and A for the same, Postgres's does not.
        """
        position = func.instr if self.is_sqlite else func.strpos
        return position(column, part) > 0

    def forget_deleted(self) -> None:
        """Has SQLite overwrite what deleted rows left in its file and write-ahead log.

        While somebody reads it is left for the next time; a log that fills is begun anew anyway. Postgres does it by
        itself (autovacuum).
        """
        if not self.is_sqlite:
            return
        with self._writer, self._translated(), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"PRAGMA busy_timeout={_CHECKPOINT_BUSY_MS}")
            try:
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.OperationalError as error:
                log.info("deleted rows stay in the log for now", reason=str(error))
            finally:
                driver.execute(f"PRAGMA busy_timeout={_SQLITE_BUSY_MS}")

    def ping(self) -> None:
        """Raises Unavailable when the database does not answer."""
        with self.reading() as session:
            session.execute(text("SELECT 1"))

    def dispose(self) -> None:
        """Closes all pooled connections."""
        self.engine.dispose()

    def _reading_only(self, connection: Connection) -> AbstractContextManager[None]:
        if self.is_sqlite:
            return _switched(connection, "query_only", on=True)
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        return nullcontext()  # the pool takes both options back

    def _bounded(self, connection: Connection, seconds: float) -> AbstractContextManager[None]:
        if self.is_sqlite:
            return _interrupted_after(connection, seconds)
        # SET takes no parameters; set_config's third one makes it local to the transaction.
        connection.execute(select(func.set_config("statement_timeout", f"{max(1, round(seconds * 1000))}ms", True)))
        return nullcontext()

    @contextmanager
    def _translated(self, *, may_write: bool = True) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as error:
            log.error("all database connections are taken", error=str(error))
            raise _busy() from error
        except DBAPIError as error:
            refusal = _refusal(error, may_write=may_write)
            if refusal is None:
                raise
            log.error("the database failed", error=str(error.orig), kind=type(error.orig).__name__)
            raise refusal from error


def _refusal(error: DBAPIError, *, may_write: bool) -> Unavailable | None:
    """What to tell people; None when the error is a bug of ours."""
    code = getattr(error.orig, "sqlstate", None)
    if isinstance(error.orig, sqlite3.Error):
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    fault = _FAULTS.get(code)
    if fault is _not_writable and not may_write:
        return None
    if fault is not None:
        return fault()
    if error.connection_invalidated:
        return Unavailable("The database connection was lost.")
    return Unavailable("The database does not answer.") if isinstance(error, OperationalError) else None


def _checked(url: str) -> URL:
    remedy = (
        "Set PORTAL_DATABASE_URL to postgresql://user:password@host/name or sqlite:////folder/name.db, or unset it."
    )
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SettingsError("PORTAL_DATABASE_URL is not the URL of a database.", remedy=remedy) from None
    if parsed.drivername not in _DRIVERS:
        raise SettingsError("PORTAL_DATABASE_URL names a kind of database that is not offered.", remedy=remedy)
    if parsed.get_backend_name() == "sqlite":
        names_file = parsed.database not in {None, "", ":memory:"} and not parsed.host and not parsed.query
        if not names_file:  # one in memory is another one for each connection
            raise SettingsError("PORTAL_DATABASE_URL does not name an SQLite file.", remedy=remedy)
    return parsed


def _sqlite_engine(url: str) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,  # an error's text goes to the log, and a row may hold a hash
        poolclass=QueuePool,
        pool_size=_POSTGRES_CONNECTIONS,
        max_overflow=24,
        connect_args={"check_same_thread": False, "timeout": _SQLITE_BUSY_MS / 1000},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # sqlite3 opens transactions by itself and late; the begin event below does it instead.
    # https://docs.sqlalchemy.org/en/21/dialects/sqlite.html#pysqlite-serializable
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",  # NORMAL may lose the last commits in a power cut, and a job was promised by then
        "foreign_keys=ON",
        "secure_delete=ON",  # what is deleted is overwritten, not only unlinked: people were promised that it is gone
        f"busy_timeout={_SQLITE_BUSY_MS}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


@contextmanager
def _switched(connection: Connection, pragma: str, *, on: bool) -> Iterator[None]:
    """Turns an SQLite switch on a connection that has not begun, and back at the end, when it is rolled back."""
    driver: Any = connection.connection.driver_connection  # SQLAlchemy would begin, and in there it has no effect
    driver.execute(f"PRAGMA {pragma}={'ON' if on else 'OFF'}")
    try:
        yield
    finally:
        connection.rollback()
        driver.execute(f"PRAGMA {pragma}={'OFF' if on else 'ON'}")


@contextmanager
def _interrupted_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Ends whatever the connection does once the time is up; SQLite asks every so many steps of its machine."""
    driver: Any = connection.connection.driver_connection
    deadline = time.monotonic() + seconds
    driver.set_progress_handler(lambda: time.monotonic() > deadline, _SQLITE_STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _refuse_unstorable(
    _connection: Connection, _cursor: object, _statement: str, parameters: Any, _context: object, _is_many: bool
) -> None:
    """Raises InvalidRequest for a text that Postgres would refuse, SQLite keep, and neither ought to.

    It is a last word, not a check of a form: whatever a caller sends comes through here, whichever way it went.
    """
    for row in parameters if isinstance(parameters, list) else (parameters,):  # many rows in one statement are one
        values: Iterable[object] = row.values() if isinstance(row, Mapping) else row or ()
        if not all(is_storable(value) for value in values if isinstance(value, str)):
            raise InvalidRequest(
                "A text has a NUL or half of a surrogate pair in it, which cannot be kept or looked for.",
                remedy="Leave those characters out.",
            )


def _begin_sqlite(connection: Connection) -> None:
    mode = connection.get_execution_options().get("begin", "DEFERRED")
    if mode is not None:
        connection.exec_driver_sql(f"BEGIN {mode}")


def _postgres_engine(url: str) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_size=_POSTGRES_CONNECTIONS,
        max_overflow=8,
        connect_args={"connect_timeout": 5},
    )
    event.listen(engine, "checkin", _note_idle)
    event.listen(engine, "checkout", partial(_ask_whether_alive, engine.dialect))
    return engine


def _note_idle(_connection: object, record: ConnectionPoolEntry) -> None:
    record.info["idle_since"] = time.monotonic()


def _ask_whether_alive(
    dialect: Dialect, connection: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object
) -> None:
    """What SQLAlchemy's `pool_pre_ping` does at each use, for connections that were idle: busy ones are known to live.

    https://docs.sqlalchemy.org/en/21/core/pooling.html#custom-legacy-pessimistic-ping
    """
    if time.monotonic() - record.info.get("idle_since", math.inf) < _IDLE_SECONDS:  # a new one was never idle
        return
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError("The connection was lost.") from error


def insert_into(session: Session, table: type[DeclarativeBase]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT … RETURNING in the session's dialect."""
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def lock_across_processes(session: Session, key: int) -> None:
    """Until the transaction ends, nobody else passes this line with the same key.

    On SQLite a writing transaction is alone anyway; on Postgres two of them see each other's rows only afterwards.
    """
    if session.get_bind().dialect.name != "sqlite":
        session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
