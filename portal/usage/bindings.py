"""Which limit binds, and what a refusal says: the limit, what is used and left, when it is free again, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from portal.domain import Limit, Standing
from portal.errors import LimitReached, TooManyPages
from portal.usage.counters import WINDOW_SECONDS, Counters, window_of
from portal.usage.limits import Limits
from portal.usage.periods import Period
from portal.wording import counted

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


def refusal(
    counters: Counters, limits: Limits, period: Period, *, pages: int, is_least: bool = False
) -> LimitReached | None:
    """The refusal of `pages` pages more in one request, by the limit that binds longest; None when all allow it.

    One that never fits goes before, by the smallest limit that it passes, so that pages which fit that one fit all:
    past the pages in flight it is TooManyPages. `counters` are rolled to the period's moment. `is_least` says that the
    request may turn out to be of more pages.
    """
    need = _Need(pages, is_least)
    refused = _misfit(counters, limits, period, need) or next(_refusals(counters, limits, period, need), None)
    if refused is not None:
        refused.asked_pages = pages
    return refused


@dataclass(frozen=True)
class _Need:
    """How many pages are asked for, or at least: as it is told."""

    pages: int
    is_least: bool

    def __str__(self) -> str:
        return self._least(f"{self.pages:,}")

    @property
    def in_pages(self) -> str:
        return self._least(counted(self.pages, "page"))

    def _least(self, told: str) -> str:
        return f"at least {told}" if self.is_least else told


def _misfit(counters: Counters, limits: Limits, period: Period, need: _Need) -> LimitReached | None:
    month, day, in_flight, _, _ = standings(counters, limits, period)
    passed = [standing for standing in (month, day, in_flight) if _is_misfit(standing, need)]
    if not passed:
        return None
    smallest = min(passed, key=lambda standing: standing.allowed or 0)
    if smallest is in_flight:
        return _too_many(in_flight, need)
    return _never(smallest, need, "in a month" if smallest is month else "in a day", period.at)


def _is_misfit(standing: Standing, need: _Need) -> bool:
    return standing.allowed is not None and need.pages > standing.allowed


def _refusals(counters: Counters, limits: Limits, period: Period, need: _Need) -> Iterator[LimitReached]:
    month, day, in_flight, _, _ = standings(counters, limits, period)
    if _is_passed(month, need.pages):
        yield _used_up(month, need, "this month", period.at)
    if _is_passed(day, need.pages):
        yield _used_up(day, need, "today", period.at)
    if _is_passed(in_flight, need.pages):
        yield _in_flight(in_flight, need.pages)
    if limits.requests_per_minute is not None:
        wait = _rate_wait_seconds(counters, limits.requests_per_minute, period.at)
        if wait > 0:
            yield _rate(limits.requests_per_minute, counters, period.at, wait)


def _is_passed(standing: Standing, pages: int) -> bool:
    return pages > 0 and standing.allowed is not None and standing.used + pages > standing.allowed


def _too_many(standing: Standing, need: _Need) -> TooManyPages:
    allowed = standing.allowed or 0
    return TooManyPages(
        f"This needs {need.in_pages}, and your tenant may have {allowed:,} in flight.",
        code=TooManyPages.code,
        remedy=_instead(allowed),
        retry_after_seconds=None,
        binding=(standing.limit, allowed, standing.used, None),
    )


def _never(standing: Standing, need: _Need, what: str, at: datetime) -> LimitReached:
    allowed = standing.allowed or 0
    return _quota(
        standing,
        f"This needs {need.in_pages}, and your tenant may have {allowed:,} read {what}.",
        _instead(allowed),
        at,
    )


def _used_up(standing: Standing, need: _Need, when: str, at: datetime) -> LimitReached:
    left = standing.remaining or 0
    fewer = f"Choose at most {counted(left, 'page')}, wait for the reset" if left else "Wait for the reset"
    return _quota(
        standing,
        f"{left:,} of {counted(standing.allowed or 0, 'page')} {_are(left)} left {when}, and this needs {need}.",
        f"{fewer}, or ask for more on the Usage page. Nothing was stored or charged.",
        at,
    )


def _instead(allowed: int) -> str:
    fewer = "Split the document, choose fewer pages, or ask" if allowed else "Ask"
    return f"{fewer} for more on the Usage page. Nothing was stored or charged."


def _quota(standing: Standing, message: str, remedy: str, at: datetime) -> LimitReached:
    seconds = max(1, ceil((standing.resets_at - at).total_seconds())) if standing.resets_at else 1
    return LimitReached(
        message,
        code="quota_exhausted",
        remedy=remedy,
        retry_after_seconds=seconds,
        binding=(standing.limit, standing.allowed or 0, standing.used, seconds),
    )


def _in_flight(standing: Standing, pages: int) -> LimitReached:
    allowed = standing.allowed or 0
    return LimitReached(
        f"{standing.used:,} of your pages {_are(standing.used)} waiting or being read; with {pages:,} more it would be "
        f"over {allowed:,}.",
        code="too_many_in_flight",
        remedy="Wait until some are read, cancel some, or send fewer pages. Nothing was stored or charged.",
        retry_after_seconds=_IN_FLIGHT_RETRY_SECONDS,
        binding=(standing.limit, allowed, standing.used, None),
    )


def _rate(allowed: int, counters: Counters, at: datetime, wait_seconds: int) -> LimitReached:
    return LimitReached(
        "One request a minute is allowed, and it was made."
        if allowed == 1
        else f"{allowed:,} requests a minute are allowed, and they were made.",
        code="rate_limited",
        remedy="Wait as long as Retry-After says, then send it again. Nothing was stored or charged.",
        retry_after_seconds=wait_seconds,
        binding=(Limit.REQUESTS_PER_MINUTE, allowed, ceil(counters.recent_requests(at)), wait_seconds),
    )


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


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
