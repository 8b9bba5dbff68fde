"""A tenant hears once a period that half, four fifths or all of a quota is used."""

from __future__ import annotations

from sqlalchemy.orm import Session

from models import UsageNotice
from portal.db import insert_into
from portal.domain import Limit
from portal.usage.counters import Counters
from portal.usage.limits import Limits

PERCENTS = (50, 80, 100)


def note_thresholds(session: Session, tenant_id: str, limits: Limits, counters: Counters, *, pages: int) -> None:
    """Stores a notice for each threshold that the last `pages` pages passed; `counters` hold them already."""
    for limit, allowed, used, period in (
        (Limit.PAGES_PER_DAY, limits.pages_per_day, counters.day_pages, counters.day),
        (Limit.PAGES_PER_MONTH, limits.pages_per_month, counters.month_pages, counters.month),
    ):
        if not allowed:
            continue
        for percent in PERCENTS:
            if (used - pages) * 100 < percent * allowed <= used * 100:
                _store(session, tenant_id, limit, period, percent)


def _store(session: Session, tenant_id: str, limit: Limit, period: str, percent: int) -> None:
    session.execute(
        insert_into(session, UsageNotice)
        .values(tenant_id=tenant_id, limit_name=limit.value, period=period, percent=percent)
        .on_conflict_do_nothing()
    )
