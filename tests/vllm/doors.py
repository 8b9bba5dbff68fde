"""A portal whose engine is a real vLLM, or a router in front of several; what its ledger and vLLM's metrics say."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import openai
from sqlalchemy import select

from models import LedgerEntry, TenantUsage
from portal.accounts import api_keys
from portal.accounts.tenants import create_tenant
from portal.domain import Principal, Scope
from portal.engine.profiles import PROFILES
from portal.engine.vllm.engine import VllmEngine
from portal.engine.vllm.options import ServerOptions, VllmOptions
from portal.services import Services
from tests.api.conftest import serving
from tests.ledger import assert_books_agree, limit_tenant
from tests.vllm.servers import START_SECONDS, free_port

# LightOnOCR's, but for sizes: a tiny checkpoint with a context of 2048 tokens takes small pages and answers briefly.
_LIGHTON = PROFILES["lightonocr-2"]
TINY_LIGHTON = replace(
    _LIGHTON,
    prompt_tokens=512,
    max_tokens=1024,
    image=replace(_LIGHTON.image, longest_side_px=420, max_pixels=420 * 420),
)
_GENERATED = re.compile(r"^vllm:generation_tokens_total\{.*\} ([\d.e+]+)$", re.MULTILINE)


def tiny_engine(url: str, model: str, slots: int = 8) -> VllmEngine:
    """An engine on a real server, spoken to as LightOnOCR is."""
    server = ServerOptions(url=f"{url}/v1", model=model, first_token_seconds=300, silence_seconds=60)
    return VllmEngine(VllmOptions("vllm", server, TINY_LIGHTON, slots=slots))


@dataclass(frozen=True)
class DoorPortal:
    """The running portal, and a tenant with a key."""

    url: str
    services: Services
    alice: Principal
    key: str

    def client(self) -> openai.OpenAI:
        """OpenAI's client, which tries nothing again by itself."""
        return openai.OpenAI(api_key=self.key, base_url=f"{self.url}/v1", max_retries=0, timeout=300)

    def entries(self) -> list[tuple[str, str]]:
        """(kind, reason) of the ledger once nothing is pending; the books agree."""
        pending = select(TenantUsage.pending_pages).where(TenantUsage.tenant_id == self.alice.tenant_id)
        for _ in range(600):
            with self.services.database.reading() as session:
                if not session.scalar(pending):
                    assert_books_agree(session)
                    own = LedgerEntry.tenant_id == self.alice.tenant_id
                    return [(row.kind, row.reason) for row in session.scalars(select(LedgerEntry).where(own))]
            time.sleep(0.1)
        raise AssertionError("pages stay pending")


@contextmanager
def door_portal(folder: Path, engine: VllmEngine) -> Iterator[DoorPortal]:
    """A portal with this engine, once that has read its probe page."""
    with serving(folder, [engine], page_seconds=300) as (url, services):
        with services.database.transaction() as session:
            alice = create_tenant(session, name="acme", email="alice@acme.example", password_hash="x", time_zone="UTC")
        unlimited = {"requests_per_minute": None, "pages_in_flight": None}
        limit_tenant(services.database, alice.tenant_id, **unlimited)
        scopes = (Scope.CHAT, Scope.OCR, Scope.READ)
        with services.database.transaction() as session:
            key = api_keys.create(session, services.peppers, alice, name="test", scopes=scopes).key
        _wait_until_ready(services)
        yield DoorPortal(url, services, alice, key)


def _wait_until_ready(services: Services) -> None:
    deadline = time.monotonic() + START_SECONDS
    while services.jobs.engines.troubles:
        assert time.monotonic() < deadline, services.jobs.engines.troubles
        time.sleep(0.2)


def generated_tokens(url: str) -> float:
    """How many tokens the server has generated since its start."""
    found = _GENERATED.search(httpx.get(f"{url}/metrics", timeout=30).text)
    assert found is not None
    return float(found[1])


@contextmanager
def router(python: Path, workers: Sequence[str], log_file: Path) -> Iterator[str]:
    """vllm-router in front of the workers, set as the README says."""
    port = free_port()
    command = [
        str(python.parent / "vllm-router"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
        *("--policy", "power_of_two", "--retry-max-retries", "2", "--disable-circuit-breaker"),
        *("--health-check-interval-secs", "3", "--request-timeout-secs", "900"),
        *("--worker-urls", *workers),
    ]
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_until_routing(f"http://127.0.0.1:{port}", log_file)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        process.kill()
        process.wait()


def _wait_until_routing(url: str, log_file: Path) -> None:
    for _ in range(300):
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/v1/models", timeout=10).status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError(log_file.read_text()[-4000:])
