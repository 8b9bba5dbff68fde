"""When a waiting job's pages will be read: how many are ahead of it, and seconds until its last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sqlalchemy.orm import Session

from models import Job
from models.base import now
from portal.domain import JobState, Task
from portal.jobs import claims, handbacks, pace
from portal.jobs.context import JobContext
from portal.jobs.fairness import pages_ahead
from portal.usage.limits import weights_of

Binding = Literal["turn", "engine_slots", "engine_unavailable", "second_server"]
_A_SECOND_SERVER: Final = "A server beside the engine does not answer."
_SECOND_SERVERS: Final = {
    Task.TRANSLATE: "The page was read, but the text model that translates does not answer.",
    Task.FIELDS: "The page was read, but the engine that picks its fields does not answer.",
}


@dataclass(frozen=True)
class Outlook:
    """Why a job waits, and for how long about.

    `pages_ahead` is the number of pages served before its next one (None when none waits), `eta_seconds` the time
    until its last page, once its engine answers (None when it is over, or its engine is not configured any more).
    `binding` is what it waits for: other pages' turns, one of the engine's slots, the engine itself, or a server beside
    it, of which `eta_seconds` says when it is asked again; `detail` says in words what ails that.
    """

    pages_ahead: int | None = None
    eta_seconds: float | None = None
    binding: Binding | None = None
    detail: str | None = None


class Forecast:
    """Forecasts from one look at what waits; other tenants' work counts only as a number of pages."""

    def __init__(self, session: Session, context: JobContext) -> None:
        self._session = session
        self._troubles = context.engines.troubles
        self._slots = {engine.capability.name: engine.slots for engine in context.engines.all}
        self._postponed: dict[str, dict[str, datetime]] = {}
        self._waiting: dict[str, dict[str, dict[str, int]]] = {}
        self._pace: dict[str, pace.Pace] = {}

    def of_job(self, job: Job, *, running_pages: int) -> Outlook:
        """The outlook of a job; an empty one when it is over."""
        if JobState(job.state).is_final:
            return Outlook()
        own = self._of(job.engine).get(job.tenant_id, {})
        pace_now = self._measure(job.engine)
        if job.id not in own:
            return self._of_begun(job, pace_now.page_seconds, running_pages)
        others = self._others(job.engine, job.tenant_id)
        shares = self._shares(job.tenant_id, others)
        first = pages_ahead(1, own, others, job=job.id, shares=shares)
        last = pages_ahead(own[job.id], own, others, job=job.id, shares=shares)
        if job.engine not in self._slots:
            return Outlook(first, None, "engine_unavailable", f"The engine '{job.engine}' is not configured any more.")
        asked_again = self._seconds_until_asked_again(job) or 0.0
        seconds = max(asked_again + pace_now.page_seconds, (last + 1) * pace_now.drain_seconds)
        if job.engine in self._troubles:
            return Outlook(first, seconds, "engine_unavailable", f"{job.engine}: {self._troubles[job.engine]}")
        return Outlook(first, seconds, "turn" if first else "engine_slots")

    def _of_begun(self, job: Job, page_seconds: float, running_pages: int) -> Outlook:
        """Of a job without a page that waits for its turn."""
        asked_again = self._seconds_until_asked_again(job)
        if running_pages or asked_again is None:
            return Outlook(eta_seconds=(asked_again or 0.0) + (page_seconds if running_pages else 0.0))
        detail = _SECOND_SERVERS.get(Task(job.task), _A_SECOND_SERVER)
        return Outlook(None, asked_again + page_seconds, "second_server", detail)

    def of_new(self, tenant_id: str, engine: str, pages: int) -> float:
        """Seconds until the last of `pages` pages that the tenant would submit now; 0 for none."""
        if not pages:
            return 0.0
        own, others = self._of(engine).get(tenant_id, {}), self._others(engine, tenant_id)
        ahead = pages_ahead(pages, own, others, job="", shares=self._shares(tenant_id, others))
        pace_now = self._measure(engine)
        return max(pace_now.page_seconds, (ahead + 1) * pace_now.drain_seconds)

    def _seconds_until_asked_again(self, job: Job) -> float | None:
        """Until the first page that waits for a server beside the engine may ask it again; None when none does."""
        if job.tenant_id not in self._postponed:
            self._postponed[job.tenant_id] = handbacks.postponed(self._session, job.tenant_id)
        wait_until = self._postponed[job.tenant_id].get(job.id)
        return None if wait_until is None else max(0.0, (wait_until - now()).total_seconds())

    def _of(self, engine: str) -> dict[str, dict[str, int]]:
        if engine not in self._waiting:
            self._waiting[engine] = claims.waiting(self._session, engine)
        return self._waiting[engine]

    def _others(self, engine: str, tenant_id: str) -> dict[str, int]:
        """Other tenant → its queued pages."""
        return {tenant: sum(jobs.values()) for tenant, jobs in self._of(engine).items() if tenant != tenant_id}

    def _shares(self, tenant_id: str, others: Mapping[str, int]) -> dict[str, float]:
        """Other tenant → its weight in units of this tenant's."""
        weights = weights_of(self._session, [tenant_id, *others], at=now()) if others else {}
        own = weights.get(tenant_id, 1.0)
        return {other: weights.get(other, 1.0) / own for other in others}

    def _measure(self, engine: str) -> pace.Pace:
        if engine not in self._pace:
            self._pace[engine] = pace.measure(self._session, engine, self._slots.get(engine, 1))
        return self._pace[engine]
