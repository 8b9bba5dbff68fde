"""Looks into the history of a tenant with many jobs: its groups, and searches with and without a hit.

Run by `python -m bench history`, over SQLite in a temporary folder; `--jobs` changes the size, `--database` is the
address of another, empty database. Each figure is the median of five.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import DeclarativeBase

from models import Base, DocumentRow, Job, LedgerEntry, Page, SearchText, Tenant
from models.base import new_id, now
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.documents.storage import Storage
from portal.engine.fakes import FakeEngine
from portal.jobs import history
from portal.jobs.context import Engines, JobContext
from portal.jobs.history import Group
from portal.jobs.notices import Notices
from portal.settings import load

PAGES = 3
WORDS_OF_A_PAGE = 300
NEEDLE = "needle4711"
_BATCH = 500

Rows = dict[type[DeclarativeBase], list[dict[str, Any]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 0 when every look found what was there."""
    parser = argparse.ArgumentParser(prog="bench history", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--database", default="")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as folder:
        database = Database(given.database or f"sqlite:///{folder}/bench.db")
        tenant_id = _fill(database, given.jobs)
        settings = load()
        sandbox = Sandbox(settings.intake)
        storage = Storage(settings.store.data_dir)
        context = JobContext(settings, database, storage, sandbox, Engines([FakeEngine()]), Notices())
        is_right = _table(context, tenant_id, given.jobs)
        sandbox.close()
        database.dispose()
    return 0 if is_right else 1


def _table(context: JobContext, tenant_id: str, jobs: int) -> bool:
    def look(**asked: Any) -> Callable[[], int]:
        return lambda: len(history.find(context, tenant_id, limit=50, **asked))

    looks = (
        ("needs attention", look(group=Group.ATTENTION), min(50, jobs // 50)),
        ("done", look(group=Group.DONE), 50),
        ("a word in every name", look(text="invoice"), 50),
        ("a word of the oldest job", look(text=NEEDLE), 1),
        ("a word that is nowhere", look(text="nowhere4712"), 0),
    )
    print(f"{jobs} jobs of {PAGES} pages, {context.database.engine.dialect.name}\n")
    print(f"{'look':<28}{'found':>6}{'ms':>8}")
    is_right = True
    for title, act, expected in looks:
        found, seconds = _timed(act)
        is_right &= found == expected
        print(f"{title:<28}{found:>6}{1000 * seconds:>8.0f}")
    return is_right


def _timed(act: Callable[[], int]) -> tuple[int, float]:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        found = act()
        seconds.append(time.perf_counter() - began)
    return found, statistics.median(seconds)


def _fill(database: Database, jobs: int) -> str:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10))) for _ in range(5000)]
    Base.metadata.create_all(database.engine)
    with database.transaction() as session:
        tenant = Tenant(name="bench")
        session.add(tenant)
        session.flush()
    for start in range(0, jobs, _BATCH):
        rows: Rows = {Job: [], DocumentRow: [], Page: [], SearchText: [], LedgerEntry: []}
        for number in range(start, min(start + _BATCH, jobs)):
            _add_job(rows, tenant.id, number, lambda: " ".join(chance.choices(words, k=WORDS_OF_A_PAGE)))
        with database.transaction() as session:
            for table, values in rows.items():
                session.execute(insert(table), values)
    return tenant.id


def _add_job(rows: Rows, tenant_id: str, number: int, page_text: Callable[[], str]) -> None:
    state = "failed" if number % 50 == 49 else "succeeded"
    at = now() + timedelta(seconds=number)
    own = {"tenant_id": tenant_id, "job_id": new_id("job")}
    document_id, file_name = new_id("doc"), f"invoice {number}.pdf"
    prompted = {"task": "extract", "prompt": {}, "engine": "fake", "engine_profile": "1"}
    rows[Job].append(
        {"id": own["job_id"], "tenant_id": tenant_id, "state": state, "page_count": PAGES, "created_at": at} | prompted
    )
    stored = {"media_type": "application/pdf", "byte_size": 1, "sha256": "-", "page_count": PAGES}
    rows[DocumentRow].append({"id": document_id, "tenant_id": tenant_id, "file_name": file_name} | stored)
    rows[SearchText].append(own | {"page_id": None, "folded": file_name})
    for position in range(1, PAGES + 1):
        page_id = new_id("pag")
        text = page_text() + (f" {NEEDLE}" if number == 0 and position == PAGES else "")
        placed = {"document_id": document_id, "position": position, "number": position}
        rows[Page].append(own | placed | {"id": page_id, "state": state, "result": {"text": text, "lines": [text] * 6}})
        rows[SearchText].append(own | {"page_id": page_id, "folded": text})
        counted = {"task": "extract", "engine": "fake", "kind": "posted", "reason": "read", "pages": 1}
        period = {"reservation_id": "-", "day": "2026-01-01", "month": "2026-01"}
        rows[LedgerEntry].append(own | counted | period | {"page_id": page_id})
