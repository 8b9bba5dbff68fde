"""Which limit binds, and what a refusal says: the limit, what is used and left, when it is free again, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from math import ceil

from portal.domain import Limit, Standing
from portal.errors import LimitReached
from portal.usage.counters import WINDOW_SECONDS, Counters, window_of
from portal.usage.limits import Limits
from portal.usage.periods import Period

_ROUNDING = 1e-6  # of seconds: what is told as a whole second must be enough
_IN_FLIGHT_RETRY_SECONDS = 15  # who knows the engines' pace says better (portal/jobs/backlog.py)


def standings(counters: Counters, limits: Limits, period: Period) -> tuple[Standing, ...]:
    """How the tenant stands against each limit that is counted, the longest period first.

    Counters that are ahead of the zone's day (its zone was changed) start anew when their own day and month end.
    """
    counted = period.of_day(counters.day)
    return (
        Standing(Limit.PAGES_PER_MONTH, limits.pages_per_month, counters.month_pages, counted.month_ends_at),
        Standing(Limit.PAGES_PER_DAY, limits.pages_per_day, counters.day_pages, counted.day_ends_at),
        Standing(Limit.PAGES_IN_FLIGHT, limits.pages_in_flight, counters.pending_pages),
        Standing(Limit.REQUESTS_PER_MINUTE, limits.requests_per_minute, ceil(counters.recent_requests(period.at))),
        Standing(
            Limit.UNCHARGED_PAGES_PER_DAY,
            limits.uncharged_pages_per_day,
            counters.uncharged_pages,
            period.of_day(counters.uncharged_day).day_ends_at,
        ),
    )


_REFUSING = (Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH, Limit.PAGES_IN_FLIGHT, Limit.REQUESTS_PER_MINUTE)


def nearest(standings: Iterable[Standing]) -> Standing | None:
    """The limit that is nearest to refusing: of which the largest share is used, the day's before others.

    None when the tenant has no limit that refuses.
    """
    own = {standing.limit: standing for standing in standings if standing.allowed is not None}
    refusing = [own[limit] for limit in _REFUSING if limit in own]
    return max(refusing, key=lambda standing: standing.used_share, default=None)


def pages_left(limits: Limits, counters: Counters) -> int | None:
    """How many pages may be asked for now, by the tightest limit on pages; None when none limits them."""
    left = [
        allowed - used
        for allowed, used in (
            (limits.pages_per_day, counters.day_pages),
            (limits.pages_per_month, counters.month_pages),
            (limits.pages_in_flight, counters.pending_pages),
        )
        if allowed is not None
    ]
    return max(0, min(left)) if left else None


def refusal(counters: Counters, limits: Limits, period: Period, *, pages: int) -> LimitReached | None:
    """The refusal of `pages` pages more in one request, by the limit that binds longest; None when all allow it.

    `counters` are rolled to the period's moment.
    """
    refused = next(_refusals(counters, limits, period, pages), None)
    if refused is not None:
        refused.asked_pages = pages
    return refused


def _refusals(counters: Counters, limits: Limits, period: Period, pages: int) -> Iterator[LimitReached]:
    month, day, in_flight, _, _ = standings(counters, limits, period)
    if _is_passed(month, pages):
        yield _quota(month, pages, "this month", period.at)
    if _is_passed(day, pages):
        yield _quota(day, pages, "today", period.at)
    if _is_passed(in_flight, pages):
        yield _in_flight(in_flight, pages)
    if limits.requests_per_minute is not None:
        wait = _rate_wait_seconds(counters, limits.requests_per_minute, period.at)
        if wait > 0:
            yield _rate(limits.requests_per_minute, counters, period.at, wait)


def _is_passed(standing: Standing, pages: int) -> bool:
    return pages > 0 and standing.allowed is not None and standing.used + pages > standing.allowed


def _quota(standing: Standing, pages: int, when: str, at: datetime) -> LimitReached:
    left, allowed = standing.remaining or 0, standing.allowed or 0
    seconds = ceil((standing.resets_at - at).total_seconds()) if standing.resets_at else 0
    fewer = f"Choose at most {left} pages, wait for the reset" if left else "Wait for the reset"
    return LimitReached(
        f"{left} of {allowed} pages are left {when}, and this needs {pages}.",
        code="quota_exhausted",
        remedy=f"{fewer}, or ask for more on the Usage page. Nothing was stored or charged.",
        retry_after_seconds=max(1, seconds),
        binding=(standing.limit, allowed, standing.used, max(1, seconds)),
    )


def _in_flight(standing: Standing, pages: int) -> LimitReached:
    allowed = standing.allowed or 0
    return LimitReached(
        f"{standing.used} of your pages are waiting or being read; with {pages} more they would be over {allowed}.",
        code="too_many_in_flight",
        remedy="Wait until some are read, cancel some, or send fewer pages. Nothing was stored or charged.",
        retry_after_seconds=_IN_FLIGHT_RETRY_SECONDS,
        binding=(standing.limit, allowed, standing.used, None),
    )


def _rate(allowed: int, counters: Counters, at: datetime, wait_seconds: int) -> LimitReached:
    return LimitReached(
        f"{allowed} requests a minute are allowed, and they were made.",
        code="rate_limited",
        remedy="Wait as long as Retry-After says, then send it again. Nothing was stored or charged.",
        retry_after_seconds=wait_seconds,
        binding=(Limit.REQUESTS_PER_MINUTE, allowed, ceil(counters.recent_requests(at)), wait_seconds),
    )


def _rate_wait_seconds(counters: Counters, allowed: int, at: datetime) -> int:
    """Seconds until one request more fits in the sliding minute; 0 when it does now."""
    if counters.recent_requests(at) + 1 <= allowed:
        return 0
    _, elapsed = window_of(at)
    spare = allowed - 1 - counters.window_requests
    if spare >= 0 and counters.previous_requests:
        return max(1, ceil((1 - spare / counters.previous_requests - elapsed) * WINDOW_SECONDS + _ROUNDING))
    later = max(0.0, 1 - (allowed - 1) / max(1, counters.window_requests))
    # After two windows nothing of now counts, so the rounding needs no second more.
    return min(2 * WINDOW_SECONDS, max(1, ceil((1 - elapsed + later) * WINDOW_SECONDS + _ROUNDING)))
