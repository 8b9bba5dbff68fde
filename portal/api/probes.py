"""/livez and /readyz: for load balancers and Kubernetes, without a key."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response, status

from portal.api.problems import ProblemRoute
from portal.api.schemas import ReadinessBody, WorkerCountBody
from portal.errors import PortalError
from portal.services import Services

OK = "ok"
FLEET = "fleet"
_NOT_SEEN = "It was not seen yet."
_FRESH_SECONDS = 1.0
_STALE_SECONDS = 10.0
_NO_ANSWER = {"database": "It was not asked yet, or does not answer in time.", "storage": "It was not asked yet."}

routes = APIRouter(tags=["Probes"], route_class=ProblemRoute)


class Readiness:
    """Whether database, storage and engines can work. Safe to share between threads.

    Anybody may ask, and a look costs a file and a transaction: so one caller looks, at most once a second, and the
    others are told what was seen last. A look that hangs makes what was seen last worthless after ten seconds.
    """

    def __init__(self, services: Services, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._services = services
        self._clock = clock
        self._looking = threading.Lock()
        self._seen: tuple[float, Mapping[str, str]] = (float("-inf"), _NO_ANSWER)

    def parts(self) -> dict[str, str]:
        """Part → 'ok', or in words why not."""
        if self._age() >= _FRESH_SECONDS and self._looking.acquire(blocking=False):
            try:
                parts = self._look()
                self._seen = (self._clock(), parts)
            finally:
                self._looking.release()
        seen = self._seen[1] if self._age() < _STALE_SECONDS else _NO_ANSWER
        return {**seen, **self._engines(), **self._fleet()}

    @property
    def remote_parts(self) -> frozenset[str]:
        """The parts that may be away while the portal can take work."""
        capabilities = self._services.jobs.engines.capabilities
        return frozenset({FLEET, *(f"engine {each.name}" for each in capabilities if each.is_remote)})

    def workers(self) -> dict[str, WorkerCountBody] | None:
        """Instances of the fleet and of routers in front of engines, as seen last; None when none are known."""
        counts = self._services.machines.worker_counts()
        return {part: WorkerCountBody(ready=ready, total=total) for part, (ready, total) in counts.items()} or None

    def _age(self) -> float:
        return self._clock() - self._seen[0]

    def _look(self) -> dict[str, str]:
        return {
            "database": _said(self._services.database.ping),
            "storage": _said(self._services.jobs.storage.check),
        }

    def _engines(self) -> dict[str, str]:
        engines = self._services.jobs.engines
        return {f"engine {each.name}": engines.troubles.get(each.name, OK) for each in engines.capabilities}

    def _fleet(self) -> dict[str, str]:
        fleet = self._services.machines.fleet
        if fleet is None:
            return {}
        sight = fleet.glance()
        return {FLEET: _NOT_SEEN if sight is None else sight.words or OK}


async def _given_readiness(request: Request) -> Readiness:
    return cast(Readiness, request.state.readiness)


@routes.head("/livez", include_in_schema=False)
@routes.get("/livez", summary="Is the process alive?")
async def livez() -> dict[str, str]:
    """Answers without looking at any other part."""
    return {"status": OK}


@routes.head("/readyz", include_in_schema=False)
@routes.get(
    "/readyz",
    response_model_exclude_none=True,
    summary="Can work be taken?",
    responses={503: {"model": ReadinessBody, "description": "Some part is not ready; `parts` says which"}},
)
def readyz(readiness: Annotated[Readiness, Depends(_given_readiness)], response: Response) -> ReadinessBody:
    """Database, storage and each engine, as they were within the last second; 503 when one fails.

    An engine elsewhere (vLLM) or a fleet that is away is told and no failure of the portal: accepted pages wait for it.
    """
    parts = readiness.parts()
    is_ready = all(said == OK for part, said in parts.items() if part not in readiness.remote_parts)
    if not is_ready:
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    return ReadinessBody(status="ready" if is_ready else "unready", parts=parts, workers=readiness.workers())


def _said(ask: Callable[[], None]) -> str:
    try:
        ask()
    except PortalError as error:
        return error.message
    return OK
