"""What limits would have refused of requests that came: admission once more, pure, over what is known of the past.

Pages go back to their day and month when they went back, and are out of flight when they ended: limits that let a
request in let it in again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush

from portal.domain import Limit
from portal.usage.counters import window_of
from portal.usage.limits import Limits
from portal.usage.periods import period_at


@dataclass(frozen=True, order=True)
class Ended:
    """Pages of a request that were in flight no longer at the aware moment; returned ones count in no period either."""

    at: datetime
    pages: int
    is_returned: bool = False


@dataclass(frozen=True)
class Refused:
    """What refused a request at the time: the limit, and the value that it had."""

    limit: Limit
    allowed: int | None


@dataclass(frozen=True)
class Asked:
    """One request as it came: when (aware), its pages, and what became of them as far as it is known.

    `day` (2026-11-30) is the one that it was counted in, where that is known: a change of zone may have moved it.
    `requests` above 1 and `refused_by` are of refusals counted together.
    """

    at: datetime
    pages: int
    ends: tuple[Ended, ...] = ()
    day: str | None = None
    requests: int = 1
    refused_by: Refused | None = None

    @property
    def was_refused(self) -> bool:
        """Whether it was not let in at the time."""
        return self.refused_by is not None


@dataclass(frozen=True)
class WouldRefuse:
    """A request that the proposed limits would have refused, by the limit that binds."""

    at: datetime
    pages: int
    requests: int
    limit: Limit
    was_refused: bool


@dataclass(frozen=True)
class Before:
    """What counts when a replay begins: pages used by day (2026-11-30) and month (2026-11), and requests in flight.

    The latter's pages are in none of the sums.
    """

    used: Mapping[str, int] = field(default_factory=dict)
    in_flight: tuple[Asked, ...] = ()


def replay(
    asked: Iterable[Asked], limits: Limits, time_zone: str, *, before: Before | None = None
) -> tuple[WouldRefuse, ...]:
    """What the limits would have refused of the requests. Each is let in whole or refused whole, as admission does.

    What was refused at the time is asked again when all the others have been, so it never takes their room. By then
    nothing is in flight and no minute is known: one whose pages never fit in flight is refused again, and so is one
    that pages in flight or requests a minute refused, unless that limit is raised; then it is taken to be let in.
    """
    before = before or Before()
    counted = _Counted(time_zone, before.used)
    for one in before.in_flight:
        counted.let_in(one)
    refused = []
    for one in sorted(asked, key=lambda request: (request.was_refused, request.at)):
        bound = counted.binding(one, limits)
        if bound is None:
            counted.let_in(one)
        else:
            refused.append(WouldRefuse(one.at, one.pages, one.requests, bound, one.was_refused))
    return tuple(sorted(refused, key=lambda refusal: refusal.at))


class _Counted:
    """What the replay has let in so far. Moments never go back, but for what was refused, which comes last."""

    def __init__(self, time_zone: str, used: Mapping[str, int]) -> None:
        self._zone = time_zone
        self._used: defaultdict[str, int] = defaultdict(int, used)  # a day's name is longer than a month's
        self._in_flight = 0
        self._ends: list[tuple[Ended, str]] = []
        self._requests: defaultdict[int, int] = defaultdict(int)  # by minute since 1970

    def binding(self, one: Asked, limits: Limits) -> Limit | None:
        """The limit that refuses it, the one that binds longest first; None when it fits."""
        self._end_until(None if one.was_refused else one.at)
        day = self._day(one)
        found: list[tuple[Limit, float, int]] = [
            (Limit.PAGES_PER_MONTH, self._used[day[:7]], one.pages),
            (Limit.PAGES_PER_DAY, self._used[day], one.pages),
        ]
        if one.refused_by is None:
            found.append((Limit.PAGES_IN_FLIGHT, self._in_flight, one.pages))
            found.append((Limit.REQUESTS_PER_MINUTE, self._recent_requests(one.at), 1))
        passed = (limit for limit, used, more in found if _is_passed(limits.value(limit), used, more))
        return next(passed, None) or _bound_again(one, limits)

    def let_in(self, one: Asked) -> None:
        day = self._day(one)
        self._used[day] += one.pages
        self._used[day[:7]] += one.pages
        if one.was_refused:
            return
        self._in_flight += one.pages
        self._requests[window_of(one.at)[0]] += 1
        for end in one.ends:
            heappush(self._ends, (end, day))

    def _end_until(self, at: datetime | None) -> None:
        while self._ends and (at is None or self._ends[0][0].at <= at):
            end, day = heappop(self._ends)
            self._in_flight -= end.pages
            if end.is_returned:
                self._used[day] -= end.pages
                self._used[day[:7]] -= end.pages

    def _recent_requests(self, at: datetime) -> float:
        window, elapsed = window_of(at)  # as `Counters.recent_requests`
        return self._requests[window - 1] * (1 - elapsed) + self._requests[window]

    def _day(self, one: Asked) -> str:
        return one.day or period_at(one.at, self._zone).day


def _is_passed(allowed: float | None, used: float, more: int) -> bool:
    return allowed is not None and more > 0 and used + more > allowed


def _bound_again(one: Asked, limits: Limits) -> Limit | None:
    """What refused it at a moment that is not known any more, where that would refuse it again."""
    refused, in_flight = one.refused_by, limits.pages_in_flight
    if refused is None:
        return None
    if in_flight is not None and one.pages > in_flight * one.requests:
        return Limit.PAGES_IN_FLIGHT
    if refused.limit not in (Limit.PAGES_IN_FLIGHT, Limit.REQUESTS_PER_MINUTE):
        return None
    allowed = limits.value(refused.limit)
    is_raised = allowed is None or (refused.allowed is not None and allowed > refused.allowed)
    return None if is_raised else refused.limit
