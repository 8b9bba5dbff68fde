"""A request's page is reserved, then charged or returned, once, whatever dies in between; on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from models import LedgerEntry
from models.base import now
from portal.accounts import api_keys
from portal.accounts.peppers import Peppers
from portal.accounts.tenants import create_tenant
from portal.db import Database
from portal.domain import Principal, Scope, Task
from portal.door import passage
from portal.door.books import Books
from portal.errors import DocumentRefused, LimitReached, Unauthenticated
from portal.jobs.stray_reservations import REQUEST_DEADLINE, sweep_reservations
from portal.usage.admission import Held
from tests.ledger import assert_books_agree, charged, limit_tenant


@pytest.fixture
def alice(database: Database) -> Principal:
    with database.transaction() as session:
        return create_tenant(session, name="alice", email="alice@example.org", password_hash="x", time_zone="UTC")


@pytest.fixture
def books(database: Database) -> Iterator[Books]:
    opened = Books(database)
    yield opened
    opened.close()


async def _reserved(books: Books, alice: Principal, file_bytes: int = 1) -> Held:
    return await books.reserve(alice, task=Task.EXTRACT, engine="vllm", file_bytes=file_bytes)


def _entries(database: Database) -> list[tuple[str, str, str, str | None, int]]:
    with database.reading() as session:
        assert_books_agree(session)
        rows = session.scalars(select(LedgerEntry).order_by(LedgerEntry.created_at, LedgerEntry.id))
        return [(row.kind, row.reason, row.task, row.job_id, row.pages) for row in rows]


@pytest.mark.parametrize("is_delivered", [True, False])
def test_page_ends_once_when_it_is_settled_twice(
    database: Database, books: Books, alice: Principal, is_delivered: bool
) -> None:
    async def story() -> None:
        held = await _reserved(books, alice)
        await books.settle(alice.tenant_id, held, is_delivered=is_delivered)
        await books.settle(alice.tenant_id, held, is_delivered=not is_delivered)

    asyncio.run(story())
    end = ("posted", "delivered") if is_delivered else ("returned", "not_delivered")
    assert _entries(database) == [("reserved", "request", "extract", None, 1), (*end, "extract", None, 1)]


def test_limit_holds_for_all_at_once(database: Database, books: Books, alice: Principal) -> None:
    limit_tenant(database, alice.tenant_id, pages_per_day=5)

    async def story() -> list[Held | BaseException]:
        return await asyncio.gather(*(_reserved(books, alice) for _ in range(20)), return_exceptions=True)

    made = asyncio.run(story())
    assert sum(isinstance(each, Held) for each in made) == 5
    assert sum(isinstance(each, LimitReached) for each in made) == 15


def test_refused_file_leaves_nothing(database: Database, books: Books, alice: Principal) -> None:
    limit_tenant(database, alice.tenant_id, max_file_bytes=10)
    with pytest.raises(DocumentRefused):
        asyncio.run(_reserved(books, alice, 11))
    assert _entries(database) == []


def test_nothing_is_reserved_when_the_key_has_ended_meanwhile(
    database: Database, books: Books, alice: Principal
) -> None:
    peppers = Peppers.from_secrets(["a" * 32])
    with database.transaction() as session:
        key = api_keys.create(session, peppers, alice, name="k", scopes=(Scope.OCR,)).view
        api_keys.revoke(session, alice, key.id)
    with pytest.raises(Unauthenticated):
        asyncio.run(_reserved(books, replace(alice, api_key_id=key.id)))
    assert _entries(database) == []


def test_page_is_given_back_when_the_caller_goes_while_it_is_reserved(
    database: Database, books: Books, alice: Principal
) -> None:
    async def story() -> None:
        reserving = asyncio.create_task(_reserved(books, alice))
        await asyncio.sleep(0)
        reserving.cancel()
        await asyncio.gather(reserving, return_exceptions=True)
        await asyncio.sleep(0.3)

    asyncio.run(story())
    books.close()
    assert [entry[:2] for entry in _entries(database)] == [("reserved", "request"), ("returned", "not_delivered")]


def test_page_of_a_killed_process_is_swept_and_then_never_charged(
    database: Database, books: Books, alice: Principal
) -> None:
    held = asyncio.run(_reserved(books, alice))
    assert sweep_reservations(database).pages == 0
    assert sweep_reservations(database, at=now() + REQUEST_DEADLINE + timedelta(seconds=1)).pages == 1
    asyncio.run(books.settle(alice.tenant_id, held, is_delivered=True))
    assert [entry[:2] for entry in _entries(database)] == [("reserved", "request"), ("returned", "swept")]
    with database.reading() as session:
        assert charged(session) == 0


def test_no_request_outlives_what_its_reservation_may() -> None:
    longest = passage.WAIT_SECONDS + passage.MAX_ENGINE_SECONDS
    assert longest < REQUEST_DEADLINE.total_seconds() / 1.5


def test_writes_that_come_together_all_end_and_one_that_breaks_harms_no_other(
    database: Database, books: Books, alice: Principal
) -> None:
    stranger = replace(alice, tenant_id="ten_unknown")

    async def story() -> list[object]:
        broken = books._writer.write(_breaks)
        asked = [_reserved(books, who) for who in (alice, stranger, alice, alice)]
        made = await asyncio.gather(broken, *asked, return_exceptions=True)
        held = [each for each in made if isinstance(each, Held)]
        await asyncio.gather(*(books.settle(alice.tenant_id, each, is_delivered=True) for each in held))
        return [type(each).__name__ for each in made]

    assert asyncio.run(story()) == ["ZeroDivisionError", "Held", "NotFound", "Held", "Held"]
    assert sorted(kind for kind, *_ in _entries(database)) == ["posted"] * 3 + ["reserved"] * 3


def _breaks(session: Session) -> None:
    session.execute(text("SELECT 1"))
    raise ZeroDivisionError


def test_nothing_is_lost_when_it_closes_with_work_in_hand(database: Database, books: Books, alice: Principal) -> None:
    async def story() -> None:
        held = await _reserved(books, alice)
        settling = asyncio.create_task(books.settle(alice.tenant_id, held, is_delivered=True))
        await asyncio.sleep(0)
        await asyncio.to_thread(books.close)
        await settling

    asyncio.run(story())
    assert [entry[:2] for entry in _entries(database)] == [("reserved", "request"), ("posted", "delivered")]
