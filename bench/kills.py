"""A portal under mixed work is ended by kill -9, again and again; then its books are proven.

Run by `python -m bench kills`; `--rounds` changes the size. In each round a real portal (bench/chance_portal.py: its
engine costs nothing) starts on what the last one left, takes files, re-runs, cancellations, retries and deletions, and
is killed in the midst of it. At the end it works off what is left: no reservation is pending, posted pages are no more
than reserved ones, and the ledger agrees.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from PIL import Image, ImageDraw
from sqlalchemy import func, select

from models import Job, Page, Reservation
from portal.db import Database
from portal.domain import PageState
from portal.jobs.stray_reservations import strays, sweep_reservations
from portal.usage import books
from tests.running_portal import RunningPortal, start_portal, stop_portal

_PROGRAM = ("-m", "bench.chance_portal")
_CLIENTS = 6
_MOST_REQUESTS = 30
_LONGEST_SECONDS = 10.0
_DRAIN_SECONDS = 600


@dataclass(frozen=True)
class Outcome:
    """What was left after the last round, in pages, jobs and reservations; `faults` in words, none when all is well."""

    jobs: int
    pages_read: int
    charged: int
    reserved: int
    strays: int
    faults: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line a round and the books; 0 when they agree."""
    parser = argparse.ArgumentParser(prog="bench kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as folder:
        outcome = run(Path(folder) / "data", given.rounds, is_told=True)
    print(
        f"\n{given.rounds} kills, load {os.getloadavg()[0]:.1f}: {outcome.jobs} jobs kept, {outcome.pages_read} pages"
        f" read, {outcome.reserved} reserved, {outcome.charged} charged, {outcome.strays} reserved for nobody."
    )
    print("\n".join(outcome.faults) or "Nothing is pending; entries = reservations = counters.")
    return 1 if outcome.faults else 0


def run(data_dir: Path, rounds: int, *, is_told: bool = False) -> Outcome:
    """Kills a portal over `data_dir` so many times, lets a last one finish, and looks at what is there."""
    chance, key = random.Random(4), ""
    for number in range(1, rounds + 1):
        portal = start_portal(data_dir, program=_PROGRAM)
        key = key or _key(portal)
        requests = _work_until_killed(portal, key, chance)
        if is_told:
            print(f"round {number:>3}: {requests} requests, then kill -9", flush=True)
    portal = start_portal(data_dir, program=_PROGRAM)
    try:
        _drain(data_dir)
    finally:
        stop_portal(portal)
    return _looked_at(data_dir)


def _work_until_killed(portal: RunningPortal, key: str, chance: random.Random) -> int:
    stop, done = threading.Event(), [0] * _CLIENTS
    seeds = [chance.random() for _ in range(_CLIENTS)]

    def work(client: int) -> None:
        own = random.Random(seeds[client])
        with (
            suppress(httpx.HTTPError, OSError),
            httpx.Client(base_url=portal.url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as http,
        ):
            while not stop.is_set():
                _act(http, own)
                done[client] += 1

    with ThreadPoolExecutor(_CLIENTS) as threads:
        for client in range(_CLIENTS):
            threads.submit(work, client)
        wanted, deadline = chance.randint(2, _MOST_REQUESTS), time.monotonic() + _LONGEST_SECONDS
        while sum(done) < wanted and time.monotonic() < deadline:
            time.sleep(chance.uniform(0.01, 0.1))
        portal.kill()
        stop.set()
    return sum(done)


def _act(http: httpx.Client, chance: random.Random) -> None:
    """One request as people make them: mostly new files, some of them damaged or blank, and what is done to jobs."""
    kind = chance.choice(["new", "new", "new", "again", "blank", "damaged", "cancel", "retry", "delete"])
    if kind in ("new", "again", "blank", "damaged"):
        http.post("/v1/jobs", files={"files": ("a.tiff", _file(kind, chance))})
        return
    jobs = http.get("/v1/jobs?limit=20").json()["data"]
    if jobs:
        job = chance.choice(jobs)["id"]
        http.request(
            "DELETE" if kind == "delete" else "POST", f"/v1/jobs/{job}" + ("" if kind == "delete" else f"/{kind}")
        )


def _file(kind: str, chance: random.Random) -> bytes:
    number = chance.randrange(3) if kind == "again" else chance.randrange(10**9)
    frames = [Image.new("L", (300, 80), 255) for _ in range(1 + number % 3)]
    if kind != "blank":
        for position, frame in enumerate(frames):
            ImageDraw.Draw(frame).text((20, 30), f"Page {number} {position}", fill=0)
    else:
        frames[0].putpixel((number % 300, number % 80), 250)
    stream = io.BytesIO()
    frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:])
    content = stream.getvalue()
    return content[: len(content) - 2000] if kind == "damaged" else content


def _key(portal: RunningPortal) -> str:
    portal.command("admin", "create-tenant", "--name", "bench", "--email", "b@b.example", "--password", "bench-bench")
    return portal.command("admin", "create-key", "--tenant", "bench", "--scopes", "ocr,read").strip()


def _drain(data_dir: Path) -> None:
    """Waits until no page waits."""
    database, deadline = Database(f"sqlite:///{data_dir / 'portal.db'}"), time.monotonic() + _DRAIN_SECONDS
    unfinished = select(func.count()).where(Page.state.in_((PageState.QUEUED, PageState.RUNNING)))
    while time.monotonic() < deadline:
        with database.reading() as session:
            if not session.scalar(unfinished):
                break
        time.sleep(0.5)
    database.dispose()


def _looked_at(data_dir: Path) -> Outcome:
    database = Database(f"sqlite:///{data_dir / 'portal.db'}")
    with database.reading() as session:
        found = sum(len(own) for own in strays(session).values())
    sweep_reservations(database)
    with database.reading() as session:
        checked = books.check(session)
        faults = [f"{each.tenant_name}: {fault}" for each in checked for fault in each.faults]
        pending = session.scalar(select(func.count()).where(Reservation.closed_at.is_(None)))
        if pending:
            faults.append(f"{pending} reservations are pending")
        reserved, charged, _ = (sum(column) for column in zip(*(each.entries for each in checked), strict=True))
        if charged > reserved:
            faults.append(f"{charged} pages are charged, {reserved} were reserved")
        jobs = session.scalar(select(func.count()).select_from(Job)) or 0
        read = session.scalar(select(func.count()).where(Page.state == PageState.SUCCEEDED)) or 0
    database.dispose()
    return Outcome(jobs, read, charged, reserved, found, tuple(faults))
