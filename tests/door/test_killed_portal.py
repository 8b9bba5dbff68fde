"""A portal killed with chats open: what was delivered is charged, the rest is given back as soon as one runs again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from models import LedgerEntry, Reservation
from portal.db import Database
from tests.api.chat import PATH, asking
from tests.ledger import assert_books_agree
from tests.running_portal import RunningPortal, start_portal, stop_portal
from tests.scripted_vllm import ScriptedVllm, running_vllm, says, slow

_WAITING = 2
Counts = tuple[int, list[str]]


@pytest.fixture
def vllm() -> Iterator[ScriptedVllm]:
    with running_vllm() as running:
        yield running


def test_delivered_is_charged_and_the_rest_is_free_again_when_a_portal_was_killed(
    vllm: ScriptedVllm, tmp_path: Path
) -> None:
    settings = {"PORTAL_VLLM_URL": vllm.url, "PORTAL_VLLM_MODEL": vllm.model, "PORTAL_EMBEDDED": "off"}
    portal = start_portal(tmp_path / "data", **settings)
    portal.command("admin", "create-tenant", "--name", "Acme", "--email", "a@a.example", "--password", "a long one")
    headers = {"Authorization": f"Bearer {_key(portal)}"}
    vllm.token_seconds = 0.2
    vllm.next(says("word " * 200))
    with (
        ThreadPoolExecutor(_WAITING) as threads,
        httpx.Client(headers=headers, base_url=portal.url) as client,
        contextlib.suppress(httpx.TransportError),
        client.stream("POST", PATH, json=asking(stream=True)) as reply,
    ):
        assert any("word" in line for line in reply.iter_lines())
        vllm.always(slow(60))
        for _ in range(_WAITING):
            threads.submit(client.post, PATH, json=asking(stream=True), timeout=60)
        _until(portal, lambda counts: counts == (_WAITING, ["delivered"]))
        portal.kill()
    vllm.forget()
    vllm.always(says("probe"))
    again = start_portal(tmp_path / "data", **settings)
    try:
        _until(again, lambda counts: counts == (0, ["delivered", *["swept"] * _WAITING]))
    finally:
        stop_portal(again)
    assert list((tmp_path / "data").glob("*.holder-*")) == []


def _key(portal: RunningPortal) -> str:
    return portal.command("admin", "create-key", "--tenant", "Acme", "--scopes", "chat").strip()


def _until(portal: RunningPortal, is_so: Callable[[Counts], bool], seconds: float = 30) -> None:
    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    deadline = time.monotonic() + seconds
    while not is_so(counts := _counts(database)):
        assert time.monotonic() < deadline, counts
        time.sleep(0.1)
    database.dispose()


def _counts(database: Database) -> Counts:
    """(pages pending, reasons of the ends)."""
    with database.reading() as session:
        assert_books_agree(session)
        held = session.scalars(select(Reservation).where(Reservation.closed_at.is_(None))).all()
        reasons = session.scalars(select(LedgerEntry.reason).where(LedgerEntry.kind != "reserved"))
        return len(held), sorted(reasons)
