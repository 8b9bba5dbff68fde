"""The declarative base, the column types that make SQLite and Postgres alike, and ids."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, MetaData, String, TypeDecorator
from sqlalchemy.orm import DeclarativeBase

ID = String(40)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """All tables. Constraint names are fixed so that migrations can change them on both databases."""

    metadata = MetaData(naming_convention=NAMING)


# A week inside the calendar, so that no zone and no margin of days leads out of it.
EARLIEST = datetime(1, 1, 8, tzinfo=UTC)
LATEST = datetime(9999, 12, 24, tzinfo=UTC)


def within_calendar(moment: datetime) -> datetime:
    """The aware moment in UTC; the calendar's edge in place of one that lies at or beyond it in some zone."""
    if moment.year < EARLIEST.year + 1:
        return max(EARLIEST, _utc(moment, EARLIEST))
    return min(LATEST, _utc(moment, LATEST))


def _utc(moment: datetime, edge: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return edge


class UTCDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime on both databases; SQLite would drop the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuses naive values and stores UTC; at the calendar's edges, the edge."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a naive datetime reached the database")
        return within_calendar(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Gives the zone back that SQLite dropped."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def new_id(prefix: str) -> str:
    """A random 96-bit id that says what it names: `job_3f…`."""
    return f"{prefix}_{secrets.token_hex(12)}"


def now() -> datetime:
    """The present moment, aware, UTC."""
    return datetime.now(UTC)
