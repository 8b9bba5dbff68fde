"""How fast each engine drains its queue: what ETAs and Retry-After are computed from."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from models import Job, Page
from models.base import now
from portal.domain import PageState

FIRST_GUESS_SECONDS = 4.0
PAGES_AHEAD = 1  # claimed and rasterized while the engine's slots are full
_SAMPLE_PAGES = 30
_JITTER = 0.25
_PAGES = Page.__table__.c
_QUEUED = select(  # asked at each admission: built once
    func.count(), func.count().filter(_PAGES.tenant_id == bindparam("tenant"))
).where(_PAGES.state == PageState.QUEUED.value)


@dataclass(frozen=True)
class Pace:
    """`page_seconds`: from a page's claim to its end; `drain_seconds`: between two ends with all slots busy."""

    page_seconds: float
    drain_seconds: float


def measure(session: Session, engine: str, slots: int) -> Pace:
    """The pace of an engine, from the last pages it read.

    All tenants' pages count, as a figure of the machine; only means leave this function.
    """
    spans = session.execute(
        select(Page.started_at, Page.finished_at)
        .join(Job, Job.id == Page.job_id)
        .where(Job.engine == engine, Page.state == PageState.SUCCEEDED, Page.reused_page_id.is_(None))
        .order_by(Page.finished_at.desc())
        .limit(_SAMPLE_PAGES)
    ).all()
    seconds = [_seconds(start, end) for start, end in spans if start is not None and end is not None]
    mean = sum(seconds) / len(seconds) if seconds else FIRST_GUESS_SECONDS
    return Pace(mean, mean / (max(slots, 1) + PAGES_AHEAD))


def queued_pages(session: Session, tenant_id: str) -> tuple[int, int]:
    """Pages waiting: (of all, of the tenant). PORTAL_MAX_BACKLOG_PAGES bounds the former."""
    row = session.execute(_QUEUED, {"tenant": tenant_id}).one()
    return int(row[0]), int(row[1])


def retry_after_seconds(excess_pages: int, drain_seconds: float) -> int:
    """Seconds until that many pages will have drained, jittered so that not everybody comes back at once."""
    drain = excess_pages * drain_seconds
    return max(1, round(drain * random.uniform(1, 1 + _JITTER)))  # noqa: S311 - spreads load, guards nothing


def elapsed_seconds(started_at: datetime | None, finished_at: datetime | None) -> float | None:
    """Seconds from start to end (or to now), None when it has not started."""
    return None if started_at is None else _seconds(started_at, finished_at or now())


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
