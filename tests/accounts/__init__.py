"""What the account tests share that is no fixture."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from sqlalchemy import select

from models import AuditEntry
from portal.db import Database
from portal.errors import PortalError

PASSWORD = "seven green kettles"


def at_once(count: int, call: Callable[[int], object]) -> list[object]:
    """Calls `call(0)` … `call(count - 1)` in threads that start together; a PortalError is a result too."""
    barrier = Barrier(count)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return call(number)
        except PortalError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def audited(database: Database) -> list[AuditEntry]:
    """All audit entries, oldest first."""
    with database.reading() as session:
        return list(session.scalars(select(AuditEntry).order_by(AuditEntry.at, AuditEntry.id)))
