"""What a tenant used over some days: by day, task, key and member, from the ledger; refused requests beside it.

Pages are counted on the day of their reservation, in the tenant's time zone, as its limits count them. Nothing here
changes anything; one grouped read of the ledger's index by day answers all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any, TypeVar

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from models import ApiKey, LedgerEntry, Member, RefusalCount
from portal.errors import InvalidRequest

Key = TypeVar("Key", str, str | None)

MAX_DAYS = 366
DEFAULT_DAYS = 30
_SERIES = {"blank": "blank", "failed": "failed", "truncated": "truncated"} | dict.fromkeys(
    ("identical", "sample", "late", "charged_before"), "free"
)


@dataclass(frozen=True)
class PageSums:
    """Pages by what became of them. Only `charged` ones cost; `returned` were reserved and not read.

    `free` had been read before, were a sample's, or ended after their job was closed.
    """

    charged: int = 0
    blank: int = 0
    failed: int = 0
    truncated: int = 0
    free: int = 0
    returned: int = 0

    def __add__(self, other: PageSums) -> PageSums:
        return PageSums(*(getattr(self, name) + getattr(other, name) for name in SERIES))

    @property
    def read(self) -> int:
        """Pages that an engine was given or that were free: all but those returned unread."""
        return self.charged + self.blank + self.failed + self.truncated + self.free


SERIES = tuple(field.name for field in fields(PageSums))


@dataclass(frozen=True)
class Refused:
    """Requests that a limit refused, and the pages they asked for."""

    code: str
    limit: str
    requests: int
    pages: int


@dataclass(frozen=True)
class DayUse:
    """One day (2026-11-30) in the tenant's zone."""

    day: str
    pages: PageSums
    refused_requests: int = 0
    refused_pages: int = 0


@dataclass(frozen=True)
class Share:
    """What went to one task, key or member. `id` is None for work without a key (in the browser) or member."""

    id: str | None
    name: str
    pages: PageSums


@dataclass(frozen=True)
class UsageReport:
    """All days from the first to the last, empty ones too; the shares, largest first; refusals by code and limit."""

    days: tuple[DayUse, ...]
    tasks: tuple[Share, ...]
    keys: tuple[Share, ...]
    members: tuple[Share, ...]
    refused: tuple[Refused, ...]

    @property
    def total(self) -> PageSums:
        """Over all days."""
        return sum((day.pages for day in self.days), PageSums())


def days_between(first_day: str, last_day: str) -> list[str]:
    """All days from the first to the last, both ISO dates. Raises InvalidRequest for more than MAX_DAYS, or none."""
    try:
        first, last = date.fromisoformat(first_day), date.fromisoformat(last_day)
    except ValueError:
        raise InvalidRequest("That is no day.", remedy="Write days as 2026-11-30.") from None
    count = (last - first).days + 1
    if not 1 <= count <= MAX_DAYS:
        raise InvalidRequest(
            f"From {first} to {last} are no 1 to {MAX_DAYS} days.", remedy="Choose a first day before the last one."
        )
    return [f"{first + timedelta(days=offset)}" for offset in range(count)]


def last_days(today: str, count: int) -> tuple[str, str]:
    """(first day, last day) of the `count` days that end today; fewer where the calendar begins."""
    first = max(1, date.fromisoformat(today).toordinal() - count + 1)
    return f"{date.fromordinal(first)}", today


def usage_report(session: Session, tenant_id: str, *, first_day: str, last_day: str) -> UsageReport:
    """The tenant's use from the first to the last day. Raises InvalidRequest for an impossible range."""
    days = days_between(first_day, last_day)
    rows = [_Row(*row) for row in _ledger_rows(session, tenant_id, first_day, last_day)]
    refusals = _refusal_rows(session, tenant_id, first_day, last_day)
    sums = _summed((row.day, row) for row in rows)
    keys, members = _key_names(session, tenant_id), _member_names(session, tenant_id)
    return UsageReport(
        days=tuple(_day(day, sums.get(day, PageSums()), refusals) for day in days),
        tasks=_shares(((row.task, row) for row in rows), {}),
        keys=_shares(((row.api_key_id, row) for row in rows), keys),
        members=_shares(((row.member_id, row) for row in rows), members),
        refused=_refused(refusals),
    )


def key_use(session: Session, tenant_id: str, *, day: str, month: str) -> dict[str, tuple[int, int]]:
    """Key → (pages charged on the day, in the month) of the tenant's keys that were charged any."""
    is_today = case((LedgerEntry.day == day, LedgerEntry.pages), else_=0)
    rows = session.execute(
        select(LedgerEntry.api_key_id, func.sum(is_today), func.sum(LedgerEntry.pages))
        .where(
            LedgerEntry.tenant_id == tenant_id,
            LedgerEntry.day.between(f"{month}-01", f"{month}-31"),
            LedgerEntry.kind == "posted",
            LedgerEntry.api_key_id.is_not(None),
        )
        .group_by(LedgerEntry.api_key_id)
    )
    return {key_id: (int(today), int(this_month)) for key_id, today, this_month in rows if key_id}


@dataclass(frozen=True, slots=True)
class _Row:
    day: str
    task: str
    api_key_id: str | None
    member_id: str | None
    kind: str
    reason: str
    pages: int

    @property
    def sums(self) -> PageSums:
        name = "charged" if self.kind == "posted" else _SERIES.get(self.reason, "returned")
        return PageSums(**{name: int(self.pages)})


def _ledger_rows(session: Session, tenant_id: str, first_day: str, last_day: str) -> Iterable[Any]:
    entry = LedgerEntry
    grouped = (entry.day, entry.task, entry.api_key_id, entry.member_id, entry.kind, entry.reason)
    pages = func.sum(case((entry.pages == 0, 1), else_=entry.pages))  # a free page is an entry of 0 pages
    return session.execute(
        select(*grouped, pages)
        .where(entry.tenant_id == tenant_id, entry.day.between(first_day, last_day), entry.kind != "reserved")
        .where((entry.pages > 0) | entry.page_id.is_not(None))
        .group_by(*grouped)
    )


def _refusal_rows(session: Session, tenant_id: str, first_day: str, last_day: str) -> list[RefusalCount]:
    found = select(RefusalCount).where(
        RefusalCount.tenant_id == tenant_id, RefusalCount.day.between(first_day, last_day)
    )
    return list(session.scalars(found))


def _summed(rows: Iterable[tuple[Key, _Row]]) -> dict[Key, PageSums]:
    sums: dict[Key, PageSums] = {}
    for key, row in rows:
        sums[key] = sums.get(key, PageSums()) + row.sums
    return sums


def _shares(rows: Iterable[tuple[str | None, _Row]], names: Mapping[str, str]) -> tuple[Share, ...]:
    shares = [Share(key, names.get(key or "", key or ""), sums) for key, sums in _summed(rows).items()]
    return tuple(sorted(shares, key=lambda share: (-share.pages.charged, -share.pages.read, share.name)))


def _day(day: str, pages: PageSums, refusals: Iterable[RefusalCount]) -> DayUse:
    own = [refusal for refusal in refusals if refusal.day == day]
    return DayUse(day, pages, sum(row.requests for row in own), sum(row.pages for row in own))


def _refused(rows: Iterable[RefusalCount]) -> tuple[Refused, ...]:
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        requests, pages = sums.get((row.code, row.limit_name), (0, 0))
        sums[row.code, row.limit_name] = requests + row.requests, pages + row.pages
    return tuple(Refused(code, limit, *sums[code, limit]) for code, limit in sorted(sums))


def _key_names(session: Session, tenant_id: str) -> dict[str, str]:
    rows = session.execute(select(ApiKey.id, ApiKey.name, ApiKey.prefix).where(ApiKey.tenant_id == tenant_id))
    return {key_id: f"{name} ({prefix}…)" for key_id, name, prefix in rows}


def _member_names(session: Session, tenant_id: str) -> dict[str, str]:
    rows = session.execute(select(Member.id, Member.email).where(Member.tenant_id == tenant_id))
    return {member_id: email for member_id, email in rows}
