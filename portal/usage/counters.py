"""A tenant's counters as they count at a moment: what a former day, month or minute left is nought."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping, select
from sqlalchemy.orm import Session

from models import TenantUsage
from portal.usage.periods import Period

WINDOW_SECONDS = 60


@dataclass(frozen=True)
class Counters:
    """The row of `models.TenantUsage` without its tenant; pages and requests, periods by their names."""

    day: str = ""
    day_pages: int = 0
    day_posted: int = 0
    uncharged_day: str = ""
    uncharged_pages: int = 0
    month: str = ""
    month_pages: int = 0
    month_posted: int = 0
    pending_pages: int = 0
    window: int = 0
    window_requests: int = 0
    previous_requests: int = 0

    @classmethod
    def of_row(cls, row: RowMapping | dict[str, Any]) -> Counters:
        """From a row with all columns of the table."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    def rolled(self, period: Period) -> Counters:
        """As they count at the period's moment. Periods never turn back."""
        window, _ = window_of(period.at)
        rolled = self
        if self.day < period.day:
            rolled = replace(rolled, day=period.day, day_pages=0, day_posted=0)
        if self.uncharged_day < period.day:
            rolled = replace(rolled, uncharged_day=period.day, uncharged_pages=0)
        if self.month < period.month:
            rolled = replace(rolled, month=period.month, month_pages=0, month_posted=0)
        if self.window < window:
            before = self.window_requests if self.window == window - 1 else 0
            rolled = replace(rolled, window=window, window_requests=0, previous_requests=before)
        return rolled

    def recent_requests(self, at: datetime) -> float:
        """Requests within the sliding minute before `at`: this minute's, and the former's by the part still in it."""
        _, elapsed = window_of(at)
        return self.previous_requests * (1 - elapsed) + self.window_requests


def counters_of(session: Session, tenant_id: str, period: Period, *, is_held: bool = False) -> Counters:
    """The tenant's counters at the period's moment; all nought for one that has never asked for a page.

    `is_held` keeps others from changing them until the transaction ends.
    """
    own = select(*TenantUsage.__table__.c).where(TenantUsage.tenant_id == tenant_id)
    row = session.execute(own.with_for_update() if is_held else own).one_or_none()
    stored = Counters() if row is None else Counters.of_row(row._mapping)
    return stored.rolled(period)


def window_of(at: datetime) -> tuple[int, float]:
    """(minute since 1970, part of it that has passed, 0–1) of the aware moment."""
    seconds = at.astimezone(UTC).timestamp()
    return int(seconds // WINDOW_SECONDS), (seconds % WINDOW_SECONDS) / WINDOW_SECONDS
