"""What a change of limits does to a tenant, in words: a pure function of its terms before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from zoneinfo import ZoneInfo

from portal.domain import Limit
from portal.usage.counters import Counters
from portal.usage.limit_values import LABELS, number_shown
from portal.usage.limits import Terms
from portal.usage.periods import Period, period_at
from portal.wording import counted

_UNTIL_RAISED = "new work is refused until the limit is raised."


@dataclass(frozen=True)
class Effect:
    """One thing that differs: its name (a limit's, "plan" or "time_zone"), old and new, what counts against it now.

    `used` is None where nothing is counted.
    """

    subject: str
    label: str
    old: float | str | None
    new: float | str | None
    used: int | None
    words: str


def effects(old: Terms, new: Terms, counters: Counters, *, at: datetime) -> tuple[Effect, ...]:
    """All that differs between the terms, at the aware moment `at`, when `counters` count."""
    # A change of zone may leave the counters ahead of its day: they start anew when their own day and month end.
    period = period_at(at, new.time_zone).of_day(counters.day)
    return (*_plan_and_zone(old, new, period), *_limits(old, new, counters, period, at))


def _plan_and_zone(old: Terms, new: Terms, period: Period) -> Iterator[Effect]:
    if old.plan != new.plan:
        words = "Limits of its own stay; all others are the new plan's at once."
        yield Effect("plan", "plan", old.plan, new.plan, None, words)
    if old.time_zone != new.time_zone:
        words = (
            f"Its days and months begin at midnight in {new.time_zone}; the present day ends "
            f"{_clock(period.day_ends_at, new.time_zone)}. What was used stays counted until then."
        )
        yield Effect("time_zone", "time zone", old.time_zone, new.time_zone, None, words)


def _limits(old: Terms, new: Terms, counters: Counters, period: Period, at: datetime) -> Iterator[Effect]:
    for limit in Limit:
        before, after = old.limits.value(limit), new.limits.value(limit)
        if before != after:
            used = _used(limit, counters, at)
            words = _words(limit, (before, after), used or 0, period, new.time_zone)
            yield Effect(limit.value, LABELS[limit], before, after, used, words)


def _used(limit: Limit, counters: Counters, at: datetime) -> int | None:
    return {
        Limit.PAGES_PER_DAY: counters.day_pages,
        Limit.PAGES_PER_MONTH: counters.month_pages,
        Limit.REQUESTS_PER_MINUTE: ceil(counters.recent_requests(at)),
        Limit.PAGES_IN_FLIGHT: counters.pending_pages,
        Limit.UNCHARGED_PAGES_PER_DAY: counters.uncharged_pages,
    }.get(limit)


def _words(limit: Limit, values: tuple[float | None, float | None], used: int, period: Period, zone: str) -> str:
    before, after = values
    if limit is Limit.PAGES_PER_DAY:
        return _quota(after, used, "today", period.day_ends_at, zone)
    if limit is Limit.PAGES_PER_MONTH:
        return _quota(after, used, "this month", period.month_ends_at, zone)
    if limit is Limit.PAGES_IN_FLIGHT:
        return _in_flight(after, used)
    if limit is Limit.WEIGHT:
        return f"When engines are full, it gets {(after or 1) / (before or 1):.3g} times the share that it had."
    return _others(limit, after)


def _quota(allowed: float | None, used: int, when: str, ends: datetime, zone: str) -> str:
    if allowed is None:
        return f"Nothing limits its pages {when} any more; {counted(used, 'page')} counted so far."
    if not allowed:
        return f"It may have no pages {when}: {_UNTIL_RAISED} Pages that were accepted are still read."
    if used >= allowed:
        new = counted(round(allowed), "page")
        all_used = f"its {new}" if used == allowed else f"{used:,} of the new {allowed:,.0f}"
        return (
            f"The tenant has used {all_used} {when}: new work is refused until {_clock(ends, zone)}. "
            "Pages that were accepted are still read."
        )
    left = round(allowed) - used
    return f"{left:,} of {counted(round(allowed), 'page')} {'is' if left == 1 else 'are'} left {when}."


def _in_flight(allowed: float | None, used: int) -> str:
    if allowed is None:
        return f"Nothing limits its pages in flight any more; {_waiting(used)}."
    if not allowed and not used:
        return f"No page waits or is read now, and {_UNTIL_RAISED}"
    if used < allowed:
        return f"{counted(round(allowed) - used, 'page')} more may wait now."
    until = f"new work is refused until fewer than {allowed:,.0f} are." if allowed else _UNTIL_RAISED
    return f"{_waiting(used)}, and {'stays' if used == 1 else 'stay'} accepted: {until}"


def _waiting(pages: int) -> str:
    return f"{counted(pages, 'page')} {'waits or is' if pages == 1 else 'wait or are'} read"


def _others(limit: Limit, allowed: float | None) -> str:
    value, whole = number_shown(allowed), round(allowed or 0)
    sentences: dict[Limit, Callable[[], str]] = {
        Limit.REQUESTS_PER_MINUTE: lambda: (
            f"From now on more than {counted(whole, 'request')} within a minute are refused."
        ),
        Limit.UNCHARGED_PAGES_PER_DAY: lambda: (
            f"Blank and failed pages past {value} a day are charged like pages that were read."
        ),
        Limit.MAX_FILE_BYTES: lambda: f"New files over {counted(whole, 'byte')} are refused; stored ones stay.",
        Limit.MAX_DOCUMENT_PAGES: lambda: (
            f"New documents of more than {counted(whole, 'page')} are refused; stored ones stay."
        ),
        Limit.RETENTION_DAYS: lambda: (
            f"Documents and results older than {counted(whole, 'day')} are deleted by the next clean-up, for good."
        ),
    }
    if allowed is None:
        return f"Nothing limits {LABELS[limit]} any more, but for the portal's own settings."
    return sentences[limit]()


def _clock(moment: datetime, zone: str) -> str:
    local = moment.astimezone(ZoneInfo(zone))
    return f"{local:%H:%M} on {local:%-d %B} ({zone})"
