"""What the tests of the chat door share: bodies, OpenAI's client, and what the ledger says."""

from __future__ import annotations

import base64
from typing import Any

import openai
from sqlalchemy import select

from models import LedgerEntry, TenantUsage
from tests.api.conftest import Persona, Portal, png, wait_until
from tests.ledger import assert_books_agree

PATH = "/v1/chat/completions"


def data_url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def image(url: str | None = None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url or data_url(png())}}


def asking(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": list(parts) or [image()]}], **fields}


def entries(live: Portal, who: Persona) -> list[tuple[str, str, int]]:
    """(kind, reason, pages) of the tenant's ledger, once nothing of it is pending; the books agree."""
    usage = select(TenantUsage.pending_pages).where(TenantUsage.tenant_id == who.principal.tenant_id)

    def is_settled() -> bool:
        with live.services.database.reading() as session:
            return not session.scalar(usage)

    wait_until(is_settled)
    with live.services.database.reading() as session:
        assert_books_agree(session)
        rows = session.scalars(
            select(LedgerEntry)
            .where(LedgerEntry.tenant_id == who.principal.tenant_id)
            .order_by(LedgerEntry.created_at, LedgerEntry.id)
        )
        return [(row.kind, row.reason, row.pages) for row in rows]


CHARGED = [("reserved", "request", 1), ("posted", "delivered", 1)]
RETURNED = [("reserved", "request", 1), ("returned", "not_delivered", 1)]


def assert_idle(live: Portal) -> None:
    """No slot, place in the waiting room, or byte of an image is held."""
    door, gates = live.services.door, live.services.jobs.gates
    wait_until(lambda: door.spool.used_bytes == 0 and gates.room.taken == 0)
    for engine in live.services.jobs.engines.all:
        own = gates.of(engine)
        wait_until(lambda own=own: own._under_way == 0)  # type: ignore[misc]


def client_of(live: Portal, who: Persona) -> openai.OpenAI:
    """OpenAI's client with nothing changed but address and key."""
    return openai.OpenAI(api_key=who.key, base_url=f"{live.url}/v1", max_retries=0, timeout=20)


def messages(*parts: Any) -> Any:
    return asking(*parts)["messages"]
