"""/v1/deletions: what was deleted, when, by whom and why."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from portal.api import contract
from portal.api.access import Reader
from portal.api.problems import ProblemRoute
from portal.api.schemas import DeletionBody, DeletionList
from portal.http.given import PortalServices
from portal.http.ids import possible_id
from portal.jobs import deletion

_MAX_LIST = 100

routes = APIRouter(prefix="/v1/deletions", tags=["Jobs"], route_class=ProblemRoute)


@routes.get("", summary="List deletions", responses=contract.reading("not_found", "invalid_request"))
def list_deletions(
    services: PortalServices,
    principal: Reader,
    limit: Annotated[int, Query(ge=1, le=_MAX_LIST, description="Deletions in one answer")] = 50,
    before: Annotated[
        Annotated[str, AfterValidator(partial(possible_id, unknown="There is no such deletion."))] | None,
        Query(description="List what is older: `next_before` of the last answer"),
    ] = None,
) -> DeletionList:
    """What your tenant deleted, and what was deleted because it was kept as long as your plan keeps it."""
    found = deletion.list_deletions(services.jobs, principal.tenant_id, limit=limit + 1, before=before)
    shown, has_more = found[:limit], len(found) > limit
    return DeletionList(
        data=[DeletionBody.model_validate(each) for each in shown],
        has_more=has_more,
        next_before=shown[-1].id if has_more else None,
    )
