"""What a process holds is nobody's once it is gone, on both databases, and not before."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from portal.db import Database
from portal.jobs import presence
from portal.jobs.presence import Presence, forget_gone, gone

_HOLDS = """
import sys
from portal.db import Database
from portal.jobs.presence import Presence
presence = Presence(Database(sys.argv[1]))
print(presence.holder(), flush=True)
sys.stdin.read()
"""


def _gone(database: Database, *holders: str) -> set[str]:
    with database.reading() as session:
        return gone(session, holders)


def test_holder_is_gone_when_its_process_was_killed_and_not_before(database: Database) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        holder = process.stdout.readline().strip()
        assert _gone(database, holder) == set()
        forget_gone(database)
        assert _gone(database, holder) == set(), "what lives is never forgotten"
        process.kill()
        process.wait()
    assert _gone(database, holder) == {holder}


def test_process_lives_until_it_ends_in_good_order(database: Database) -> None:
    first, second = Presence(database), Presence(database)
    holders = {first.holder(), second.holder()}
    assert len(holders) == 2
    assert first.holder() in holders
    assert _gone(database, *holders) == set()
    first.end()
    assert _gone(database, *holders) == holders - {second.holder()}
    second.end()


def test_lock_is_taken_again_when_its_connection_was_lost(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    if database.is_sqlite:
        return  # a file's lock is lost with its process only
    monkeypatch.setattr(presence, "LOOK_SECONDS", 0.1)
    alive = Presence(database)
    holder = alive.holder()
    killed = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
    with database.transaction() as session:
        assert session.scalars(text(killed)).all() == [True]
    time.sleep(1)  # the old connection's lock is gone by now, whoever looks
    deadline = time.monotonic() + 20
    while _gone(database, holder):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    alive.end()
    assert _gone(database, holder) == {holder}


@pytest.mark.parametrize("holder", ["", "../../etc/passwd", "g" * 15, "0" * 40])
def test_what_is_no_holder_is_gone(database: Database, holder: str) -> None:
    assert _gone(database, holder) == {holder}


def test_nothing_is_left_beside_the_database_when_its_process_is_gone(sqlite_database: Database) -> None:
    beside = Path(sqlite_database.engine.url.database or "")
    kept = Presence(sqlite_database)
    kept.holder()
    url = sqlite_database.engine.url.render_as_string()
    subprocess.run([sys.executable, "-c", _HOLDS, url], stdin=subprocess.DEVNULL, check=True, capture_output=True)
    forget_gone(sqlite_database)
    left = [path.name for path in beside.parent.glob("*.holder-*")]
    assert left == [f"{beside.name}.holder-{kept.holder()}"]
    kept.end()
    assert list(beside.parent.glob("*.holder-*")) == []
