"""Days and months as a tenant counts them: they begin at midnight in its time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from portal.errors import InvalidRequest


@dataclass(frozen=True)
class Period:
    """A moment with its day (2026-11-30) and month (2026-11) in a tenant's zone, and when each ends. All aware."""

    at: datetime
    day: str
    month: str
    day_ends_at: datetime
    month_ends_at: datetime
    time_zone: str

    def of_day(self, day: str) -> Period:
        """The period of a later day in the same zone; itself for its own day or an earlier one."""
        if day <= self.day:
            return self
        noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(self.time_zone))
        return period_at(noon, self.time_zone)


def period_at(moment: datetime, time_zone: str) -> Period:
    """The period that holds the aware moment, in an IANA time zone."""
    zone = ZoneInfo(time_zone)
    local = moment.astimezone(zone)
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone)
    first = midnight.replace(day=1)
    return Period(
        at=moment,
        day=f"{local:%Y-%m-%d}",
        month=f"{local:%Y-%m}",
        day_ends_at=_midnight(midnight + timedelta(days=1)),
        month_ends_at=_midnight(first + timedelta(days=32), day=1),
        time_zone=time_zone,
    )


def checked_time_zone(name: str) -> str:
    """The IANA name itself. Raises InvalidRequest (time_zone_unknown)."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"There is no time zone '{name[:64]}'.",
            code="time_zone_unknown",
            remedy="Use an IANA name such as Europe/Berlin or UTC.",
        ) from None
    return name


def _midnight(moment: datetime, *, day: int | None = None) -> datetime:
    # Wall-clock arithmetic, then UTC: days of 23 and 25 hours come out right.
    return moment.replace(day=day or moment.day, hour=0, minute=0).astimezone(UTC)
