"""When a waiting job's pages will be read: how many are ahead of it, and seconds until its last one."""

from __future__ import annotations

from sqlalchemy.orm import Session

from models import Job
from portal.domain import JobState
from portal.jobs import claims, pace
from portal.jobs.context import JobContext
from portal.jobs.fairness import pages_ahead


class Forecast:
    """Forecasts from one look at what waits; other tenants' work counts only as a number of pages."""

    def __init__(self, session: Session, context: JobContext) -> None:
        self._session = session
        self._slots = {engine.capability.name: engine.slots for engine in context.engines.all}
        self._waiting: dict[str, dict[str, dict[str, int]]] = {}
        self._pace: dict[str, pace.Pace] = {}

    def of_job(self, job: Job, *, running_pages: int) -> tuple[int | None, float | None]:
        """(pages ahead of the job's next page, seconds until its last page)."""
        if JobState(job.state).is_final:
            return None, None
        own = self._of(job.engine).get(job.tenant_id, {})
        pace_now = self._measure(job.engine)
        if job.id not in own:
            return None, pace_now.page_seconds if running_pages else 0.0
        others = {
            tenant: sum(jobs.values()) for tenant, jobs in self._of(job.engine).items() if tenant != job.tenant_id
        }
        first = pages_ahead(1, own, others, job=job.id)
        last = pages_ahead(own[job.id], own, others, job=job.id)
        return first, max(pace_now.page_seconds, (last + 1) * pace_now.drain_seconds)

    def of_new(self, tenant_id: str, engine: str, pages: int) -> float:
        """Seconds until the last of `pages` pages that the tenant would submit now; 0 for none."""
        if not pages:
            return 0.0
        waiting = self._of(engine)
        others = {tenant: sum(jobs.values()) for tenant, jobs in waiting.items() if tenant != tenant_id}
        ahead = pages_ahead(pages, waiting.get(tenant_id, {}), others, job="")
        pace_now = self._measure(engine)
        return max(pace_now.page_seconds, (ahead + 1) * pace_now.drain_seconds)

    def _of(self, engine: str) -> dict[str, dict[str, int]]:
        if engine not in self._waiting:
            self._waiting[engine] = claims.waiting(self._session, engine)
        return self._waiting[engine]

    def _measure(self, engine: str) -> pace.Pace:
        if engine not in self._pace:
            self._pace[engine] = pace.measure(self._session, engine, self._slots.get(engine, 1))
        return self._pace[engine]
