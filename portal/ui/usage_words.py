"""Use, limits and prices as sentences. Pure; times come aware and are told in the tenant's zone."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from portal.domain import Limit, Standing
from portal.jobs.price import Price
from portal.ui import words
from portal.usage.notices import Notice
from portal.usage.receipts import Receipt
from portal.usage.reports import SERIES, PageSums
from portal.usage.standing import TenantStanding

_PERIODS = {Limit.PAGES_PER_DAY: "today", Limit.PAGES_PER_MONTH: "this month"}


def number(count: float) -> str:
    """`12,400`."""
    return f"{count:,.0f}"


def pages(count: int) -> str:
    """`1 page`, `12,400 pages`."""
    return "1 page" if count == 1 else f"{number(count)} pages"


def until(at: datetime, now: datetime) -> str:
    """How long until `at`: `5 h`, `12 min`, `3 days`."""
    minutes = max((at - now).total_seconds(), 0) / 60
    if minutes < 90:
        return f"{max(1, round(minutes))} min"
    return f"{round(minutes / 60)} h" if minutes < 36 * 60 else words.counted(round(minutes / 60 / 24), "day")


def clock(at: datetime, now: datetime, zone: str) -> str:
    """The moment in the zone: `17:20` where it is today, else `14 Dec`."""
    local, today = at.astimezone(ZoneInfo(zone)), now.astimezone(ZoneInfo(zone))
    return f"{local:%H:%M}" if local.date() == today.date() else f"{local.day} {local:%b}"


def headline(standing: TenantStanding, ends_at: datetime | None) -> str:
    """The sentence on top: what is used of the limit on pages that is nearest, when it resets, when it runs out."""
    limit, at, zone = told_limit(standing), standing.period.at, standing.terms.time_zone
    if limit is None or limit.allowed is None:
        return f"{pages(standing.counters.day_pages)} today; no limit applies."
    told = f"{number(limit.used)} of {pages(limit.allowed)} {_PERIODS.get(limit.limit, 'in flight')}"
    if limit.resets_at is not None:
        told += f", resets in {until(limit.resets_at, at)}"
    if not limit.remaining:
        return f"{told}. None are left{_elsewhere(limit, at, zone)}."
    if ends_at is not None:
        return f"{told}; at this pace they run out about {clock(ends_at, at, zone)}."
    return f"{told}." if not limit.used or limit.resets_at is None else f"{told}; at this pace they last until then."


def told_limit(standing: TenantStanding) -> Standing | None:
    """The day's or month's limit that is nearest to its end; None where neither is limited."""
    own = [one for one in standing.standings if one.limit in _PERIODS and one.allowed is not None]
    return max(reversed(own), key=lambda one: one.used_share, default=None)


def limit_line(standing: Standing, now: datetime, zone: str) -> str:
    """`412 of 500 used, 88 left; resets in 5 h, at 00:00`."""
    if standing.allowed is None:
        return f"{number(standing.used)} used; no limit"
    told = f"{number(standing.used)} of {number(standing.allowed)} used, {number(standing.remaining or 0)} left"
    if standing.resets_at is None:
        return told
    local = standing.resets_at.astimezone(ZoneInfo(zone))
    when = f"at {local:%H:%M}" if standing.limit is not Limit.PAGES_PER_MONTH else f"on {local.day} {local:%b}"
    return f"{told}; resets in {until(standing.resets_at, now)}, {when}"


def notice(one: Notice, standing: TenantStanding) -> str:
    """What is told once a period: `80 % of today's pages are used: 412 of 500.`"""
    own = next((limit for limit in standing.standings if limit.limit is one.limit), None)
    whose = "today's pages" if one.limit is Limit.PAGES_PER_DAY else "this month's pages"
    counts = f": {number(own.used)} of {number(own.allowed)}" if own is not None and own.allowed is not None else ""
    return (
        f"All of {whose} are used{counts}." if one.percent == 100 else f"{one.percent} % of {whose} are used{counts}."
    )


def sums(found: PageSums) -> str:
    """`412 charged, 3 failed`: the series that there are."""
    told = [f"{number(getattr(found, name))} {words.SERIES[name]}" for name in SERIES if getattr(found, name)]
    return ", ".join(told) or "nothing"


def day_name(day: str) -> str:
    """`12 Mar` of an ISO date."""
    at = date.fromisoformat(day)
    return f"{at.day} {at:%b}"


def receipt(found: Receipt) -> str:
    """A receipt in one line: `12 pages reserved, 11 charged, 1 returned`."""
    told = f"{pages(found.reserved)} reserved, {number(found.charged)} charged"
    if found.returned:
        told += f", {number(found.returned)} returned"
    if found.pending:
        told += f", {number(found.pending)} pending"
    return told


def price(found: Price) -> str:
    """`12 pages · 38 of 500 left today · about 40 s`; `1 page, read before: free`."""
    parts = [with_free(found.pages, found.free_pages)]
    if found.pages or not found.free_pages:
        parts.append(left(found.standing))
    if found.pages and found.refusal is None:
        parts.append(words.duration(found.eta_seconds))
    return " · ".join(part for part in parts if part)


def with_free(count: int, free: int) -> str:
    """`3 pages`, `1 page, read before: free`, `4 pages, 1 of them read before: free`; `count` are the others."""
    if not free:
        return pages(count)
    return f"{pages(count + free)}, {f'{number(free)} of them ' if count else ''}read before: free"


def left(standing: TenantStanding) -> str:
    """`38 of 500 left today`, of the day's and the month's limit the one that leaves fewer; empty where neither is.

    What may be in flight is no store that is used up: it is told only where it refuses (`shortage`).
    """
    own = {one.limit: one for one in standing.standings if one.allowed is not None}
    limit = min((own[name] for name in _PERIODS if name in own), key=lambda one: one.remaining or 0, default=None)
    if limit is None:
        return ""
    return f"{number(limit.remaining or 0)} of {number(limit.allowed or 0)} left {_PERIODS[limit.limit]}"


def tightest(standing: TenantStanding) -> Standing | None:
    """The limit on pages that leaves the fewest; the day's where several leave as many."""
    own = {one.limit: one for one in standing.standings if one.allowed is not None}
    order = (Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH, Limit.PAGES_IN_FLIGHT)
    return min((own[limit] for limit in order if limit in own), key=lambda one: one.remaining or 0, default=None)


def shortage(found: Price) -> str:
    """`8 pages left today, this file has 12`; the pages chosen where not all are, those not free where some are."""
    limit = tightest(found.standing)
    remaining = limit.remaining or 0 if limit is not None else 0
    period = _PERIODS.get(limit.limit, "until others are read") if limit is not None else ""
    whole = len(found.files) == 1 and len(found.files[0].numbers) == found.files[0].page_count
    what = "this file has" if whole else "this choice has" if len(found.files) == 1 else "these files have"
    new = " not read before" if found.free_pages else ""
    return f"{pages(remaining)} left {period}, {what} {number(found.pages)}{new}"


def resets(standing: TenantStanding) -> str:
    """`Resets 00:00 (Europe/Berlin).` of the limit that leaves the fewest pages; empty where nothing resets."""
    limit, zone = tightest(standing), standing.terms.time_zone
    if limit is None or limit.resets_at is None:
        return ""
    local = limit.resets_at.astimezone(ZoneInfo(zone))
    day = "" if limit.limit is Limit.PAGES_PER_DAY else f"{local.day} {local:%b} "
    return f"Resets {day}{local:%H:%M} ({zone})."


def _elsewhere(limit: Standing, at: datetime, zone: str) -> str:
    return "" if limit.resets_at is None else f" until {clock(limit.resets_at, at, zone)}"
