"""What a delivery holds is freed when it ends, however little of it was read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import select

from models import ApiKey, LedgerEntry
from models.base import now
from portal.accounts import api_keys
from portal.accounts.peppers import Peppers
from portal.accounts.suspension import suspend
from portal.accounts.tenants import create_tenant
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.domain import Principal, Scope, TenantState
from portal.door.image_check import CheckedImage
from portal.door.order import Asked, order_of
from portal.door.passage import Door
from portal.engine.vllm.engine import VllmEngine
from portal.errors import Forbidden, Unauthenticated
from portal.jobs.context import Engines, JobContext
from portal.jobs.notices import Notices
from portal.settings import AccountSettings, EngineSettings, IntakeSettings, ServerSettings, Settings, StoreSettings
from portal.tenancy.deletion import delete_tenant
from tests.engine.vllm_bench import make_engine
from tests.ledger import assert_books_agree, charged
from tests.scripted_vllm import ScriptedVllm, running_vllm, says


def _door(database: Database, folder: Path, engine: VllmEngine) -> Door:
    store = StoreSettings(data_dir=folder)
    settings = Settings(ServerSettings(), store, AccountSettings(), IntakeSettings(), EngineSettings())
    engines = Engines([engine])
    engines.mark(engine, None)
    sandbox = cast(Sandbox, None)  # the door decodes nothing
    return Door(JobContext(settings, database, Storage(folder), sandbox, engines, Notices()))


async def _end_unread(vllm: ScriptedVllm, database: Database, folder: Path, alice: Principal) -> None:
    engine = make_engine(vllm)
    door = _door(database, folder, engine)
    spooled = door.spool.image(1000)
    spooled.write(b"a page")
    order = order_of(Asked(is_stream=True), CheckedImage(spooled, "image/png", 10, 10), engine, engine, alice)
    delivery = await door.deliver(alice, order, request_id="req_1")
    assert vllm.running == 1
    await delivery.end()
    await asyncio.to_thread(vllm.wait_until, lambda: vllm.running == 0)
    del delivery  # kept until here: nothing was left to the garbage collector
    spooled.discard()
    door.close()
    await engine.close()


def test_call_is_aborted_and_free_when_nothing_of_its_answer_was_read(
    sqlite_database: Database, tmp_path: Path
) -> None:
    with sqlite_database.transaction() as session:
        alice = create_tenant(session, name="alice", email="alice@example.org", password_hash="x", time_zone="UTC")
    with running_vllm() as vllm:
        vllm.token_seconds = 0.2
        vllm.always(says("word " * 200))
        asyncio.run(_end_unread(vllm, sqlite_database, tmp_path, alice))
    with sqlite_database.reading() as session:
        assert_books_agree(session)
        reasons = session.scalars(select(LedgerEntry.reason).order_by(LedgerEntry.created_at, LedgerEntry.id)).all()
    assert reasons == ["request", "not_delivered"]


async def _ask_behind_another(door: Door, engine: VllmEngine, alice: Principal, end: Callable[[], object]) -> None:
    """Asks while all slots are another tenant's, and does `end` while the request waits."""
    spooled = door.spool.image(1000)
    spooled.write(b"a page")
    order = order_of(Asked(is_stream=True), CheckedImage(spooled, "image/png", 10, 10), engine, engine, alice)
    try:
        async with door.context.gates.of(engine).turn("another"):
            asking = asyncio.create_task(door.deliver(alice, order, request_id="req_1"))
            while not _entries(door.context.database):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(end)
        delivery = await asking
        await delivery.end()
    finally:
        spooled.discard()
        door.close()
        await engine.close()


def _entries(database: Database) -> list[str]:
    with database.reading() as session:
        return list(session.scalars(select(LedgerEntry.reason).order_by(LedgerEntry.created_at, LedgerEntry.id)))


@pytest.mark.parametrize(
    ("end", "refusal"),
    [
        ("revoke", "api_key_revoked"),
        ("expire", "api_key_expired"),
        ("suspend", "tenant_suspended"),
        ("delete", "api_key_invalid"),
    ],
)
def test_nothing_is_sent_or_charged_when_the_caller_ended_while_it_waited(
    database: Database, tmp_path: Path, end: str, refusal: str
) -> None:
    with database.transaction() as session:
        alice = create_tenant(session, name="alice", email="alice@example.org", password_hash="x", time_zone="UTC")
        key = api_keys.create(session, Peppers.from_secrets(["a" * 32]), alice, name="k", scopes=(Scope.OCR,)).view

    def ended() -> None:
        if end == "delete":
            delete_tenant(database, Storage(tmp_path), "admin", alice.tenant_id, typed_name="alice")
            return
        with database.transaction() as session:
            if end == "revoke":
                api_keys.revoke(session, alice, key.id)
            elif end == "expire":
                session.get_one(ApiKey, key.id).expires_at = now()
            else:
                suspend(session, alice.tenant_id, state=TenantState.SUSPENDED, reason="a bill", actor="admin")

    with running_vllm() as vllm:
        vllm.always(says("Total 9.00"))
        engine = make_engine(vllm, slots=1)
        door = _door(database, tmp_path, engine)
        with pytest.raises((Unauthenticated, Forbidden)) as refused:
            asyncio.run(_ask_behind_another(door, engine, replace(alice, api_key_id=key.id), ended))
        assert (refused.value.code, vllm.received) == (refusal, [])
    assert _entries(database) == ["request", "tenant_deleted" if end == "delete" else "not_delivered"]
    with database.reading() as session:
        assert charged(session) == 0
