"""Start-time fair queueing, pure: whose page is next, and how many pages are ahead of one's own.

Goyal, Vin and Cheng, "Start-time Fair Queueing" (SIGCOMM 1996): each flow carries the finish tag of its last
page; the flow with the least start tag max(virtual time, finish tag) is served, and the virtual time becomes
that start tag. The decision falls when a slot frees, never at submission. Used twice: between the tenants of
an engine, and between the jobs of a tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_REBASED_AFTER = 2.0**20  # of virtual time, where a double still tells 1e-10 apart: a page of weight 100 is 0.01
_FORGOTTEN_FROM = 1024  # flows


class FairQueue:
    """The virtual clock of one server. Flows are named by strings; a flow that idles gains no credit.

    Only differences of its times matter, so it begins anew at 0 now and then: it never runs out of precision.
    """

    def __init__(self) -> None:
        self._time = 0.0
        self._finish: dict[str, float] = {}

    def choose(self, flows: Iterable[str]) -> str:
        """The flow, among those with a waiting page, whose turn it is; the first named wins a tie.

        Raises ValueError when no flow is given.
        """
        return min(flows, key=self._start)

    def serve(self, flow: str, *, weight: float = 1.0) -> None:
        """Counts one page of the flow as served. A flow of weight 2 is served twice as often as one of 1.

        `weight` is 0.01–100, as limits have it.
        """
        start = self._start(flow)
        self._time = start
        self._finish[flow] = start + 1.0 / weight
        self._forget_idle()

    def _start(self, flow: str) -> float:
        return max(self._time, self._finish.get(flow, 0.0))

    def _forget_idle(self) -> None:
        # A finish tag at or before the present time says nothing more than its absence does.
        if len(self._finish) > _FORGOTTEN_FROM or self._time > _REBASED_AFTER:
            self._finish = {flow: tag - self._time for flow, tag in self._finish.items() if tag > self._time}
            self._time = 0.0


def pages_ahead(
    position: int,
    own_jobs: Mapping[str, int],
    other_tenants: Mapping[str, int],
    *,
    job: str,
    shares: Mapping[str, float] | None = None,
) -> int:
    """How many queued pages are served before page `position` (1 = the first queued one) of `job`.

    `own_jobs` maps the tenant's jobs, `other_tenants` the other tenants, to their numbers of queued pages. In
    turns, a flow gets ahead of the k-th page of another of equal weight at most k times, of one with a `shares`-th of
    its weight so much more often.
    """
    own = position + sum(min(queued, position) for name, queued in own_jobs.items() if name != job)
    weight = (shares or {}).get
    return (
        own - 1 + sum(min(queued, int(1 + (own - 1) * weight(tenant, 1.0))) for tenant, queued in other_tenants.items())
    )
