"""/livez and /readyz: for load balancers and Kubernetes, without a key."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from portal.api.access import PortalServices
from portal.api.problems import ProblemRoute
from portal.api.schemas import ReadinessBody
from portal.errors import PortalError
from portal.services import Services

OK = "ok"

routes = APIRouter(tags=["Probes"], route_class=ProblemRoute)


@routes.head("/livez", include_in_schema=False)
@routes.get("/livez", summary="Is the process alive?")
async def livez() -> dict[str, str]:
    """Answers without looking at any other part."""
    return {"status": OK}


@routes.head("/readyz", include_in_schema=False)
@routes.get(
    "/readyz",
    summary="Can work be taken?",
    responses={503: {"model": ReadinessBody, "description": "Some part is not ready; `parts` says which"}},
)
def readyz(services: PortalServices, response: Response) -> ReadinessBody:
    """Looks at the database, the storage and each engine's start-up probe; 503 when one of them is not ready."""
    parts = {
        "database": _database(services),
        "storage": _storage(services),
        **_engines(services),
    }
    is_ready = all(part == OK for part in parts.values())
    if not is_ready:
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    return ReadinessBody(status="ready" if is_ready else "unready", parts=parts)


def _database(services: Services) -> str:
    try:
        services.database.ping()
    except PortalError as error:
        return error.message
    return OK


def _storage(services: Services) -> str:
    try:
        services.jobs.storage.check()
    except PortalError as error:
        return error.message
    return OK


def _engines(services: Services) -> dict[str, str]:
    engines = services.jobs.engines
    return {f"engine {name}": engines.troubles.get(name, OK) for name in (each.name for each in engines.capabilities)}
