"""What a delivery holds is freed when it ends, however little of it was read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from sqlalchemy import select

from models import LedgerEntry
from portal.accounts.tenants import create_tenant
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.domain import Principal
from portal.door.image_check import CheckedImage
from portal.door.order import Asked, order_of
from portal.door.passage import Door
from portal.engine.vllm.engine import VllmEngine
from portal.jobs.context import Engines, JobContext
from portal.jobs.notices import Notices
from portal.settings import AccountSettings, EngineSettings, IntakeSettings, ServerSettings, Settings, StoreSettings
from tests.engine.vllm_bench import make_engine
from tests.ledger import assert_books_agree
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
