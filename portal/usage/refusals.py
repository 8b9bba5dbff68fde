"""Refused requests are counted by day, code and binding limit, so that people see whom a limit hurts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from models import RefusalCount
from models.base import now
from portal.db import Database, insert_into
from portal.errors import LimitReached, NotFound, Unavailable
from portal.usage.limits import terms_of
from portal.usage.periods import period_at

log = structlog.get_logger()


@contextmanager
def counting_refusals(database: Database, tenant_id: str) -> Iterator[None]:
    """Counts a LimitReached that leaves the block, in a transaction of its own.

    Put it around the transaction that is refused. A count that cannot be stored is dropped: the refusal stands.
    """
    try:
        yield
    except LimitReached as refusal:
        try:
            _count(database, tenant_id, refusal)
        except (Unavailable, NotFound) as error:
            log.warning("refusal not counted", reason=error.message)
        raise


def _count(database: Database, tenant_id: str, refusal: LimitReached) -> None:
    at = now()
    with database.transaction() as session:
        day = period_at(at, terms_of(session, tenant_id, at=at).time_zone).day
        table = RefusalCount
        session.execute(
            insert_into(session, table)
            .values(
                tenant_id=tenant_id,
                day=day,
                code=refusal.code,
                limit_name=refusal.limit,
                requests=1,
                pages=refusal.asked_pages,
                last_at=at,
                allowed=refusal.allowed,
            )
            .on_conflict_do_update(
                index_elements=[table.tenant_id, table.day, table.code, table.limit_name],
                set_={
                    "requests": table.requests + 1,
                    "pages": table.pages + refusal.asked_pages,
                    "last_at": at,
                    "allowed": refusal.allowed,
                },
            )
        )
