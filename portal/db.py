"""The database: one engine, two ways in, and every difference between SQLite and Postgres.

`transaction()` writes: BEGIN IMMEDIATE on SQLite, one writer at a time in this process (the command line may
write beside a running server, so busy_timeout covers other processes). `reading()` sees one consistent
snapshot and never blocks a writer. Services take a Session and never commit; use cases commit once, here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, create_engine, event, func, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, Session
from sqlalchemy.pool import QueuePool

from portal.errors import Unavailable

_SQLITE_BUSY_MS = 15_000
_POSTGRES_CONNECTIONS = 8


class Database:
    """Opens sessions. Cheap to build: connects at first use. Safe to share between threads."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        if self.is_sqlite and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        self.engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)
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
    def reading(self) -> Iterator[Session]:
        """A session for queries only; whatever it changes is rolled back. Raises Unavailable."""
        with self.connecting() as connection:
            with Session(connection, expire_on_commit=False) as session:
                yield session
            connection.rollback()

    @contextmanager
    def connecting(self, *, writes: bool = False) -> Iterator[Connection]:
        """A bare connection, for migrations and locks. `writes` begins IMMEDIATE on SQLite. Raises Unavailable."""
        with self._translated(), self.engine.connect() as connection:
            if writes and self.is_sqlite:
                connection.execution_options(begin="IMMEDIATE")
            yield connection

    def contains(self, column: ColumnElement[str] | InstrumentedAttribute[str], part: str) -> ColumnElement[bool]:
        """The condition that the column's text has `part` in it, byte for byte.

        LIKE is not that: SQLite's takes a and A for the same, Postgres's does not.
        """
        position = func.instr if self.is_sqlite else func.strpos
        return position(column, part) > 0

    def ping(self) -> None:
        """Raises Unavailable when the database does not answer."""
        with self.reading() as session:
            session.execute(text("SELECT 1"))

    def dispose(self) -> None:
        """Closes all pooled connections."""
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, PoolTimeout) as error:
            raise Unavailable("The database does not answer.") from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise Unavailable("The database connection was lost.") from error
            raise


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
        "synchronous=NORMAL",
        "foreign_keys=ON",
        f"busy_timeout={_SQLITE_BUSY_MS}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    mode = connection.get_execution_options().get("begin", "DEFERRED")
    connection.exec_driver_sql(f"BEGIN {mode}")


def _postgres_engine(url: str) -> Engine:
    return create_engine(
        url,
        hide_parameters=True,
        pool_size=_POSTGRES_CONNECTIONS,
        max_overflow=8,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 5},
    )


def insert_into(session: Session, table: type[DeclarativeBase]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT … RETURNING in the session's dialect."""
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)
