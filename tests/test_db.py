"""Transactions: all or nothing, one writer at a time, and a dead database says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, update

from models import Tenant
from models.base import now
from portal.db import Database
from portal.errors import Unavailable


def test_nothing_is_stored_when_the_block_raises(database: Database) -> None:
    with pytest.raises(KeyError), database.transaction() as session:
        session.add(Tenant(name="half"))
        session.flush()
        raise KeyError
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Tenant)) == 0


def test_nothing_is_stored_when_only_reading(database: Database) -> None:
    with database.reading() as session:
        session.add(Tenant(name="read"))
        session.flush()
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Tenant)) == 0


def test_time_keeps_its_zone_when_stored(database: Database) -> None:
    moment = now()
    with database.transaction() as session:
        session.add(Tenant(name="zoned", created_at=moment))
    with database.reading() as session:
        assert session.scalar(select(Tenant.created_at)) == moment


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
