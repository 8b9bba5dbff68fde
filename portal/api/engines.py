"""/v1/models: the configured engines in the shape of OpenAI's list, with what each can do."""

from __future__ import annotations

from fastapi import APIRouter

from portal.api import contract
from portal.api.access import AnyKey
from portal.api.problems import ProblemRoute
from portal.api.schemas import ModelList, model_body
from portal.http.given import PortalServices

routes = APIRouter(prefix="/v1/models", tags=["Models"], route_class=ProblemRoute)


@routes.get("", summary="List models", responses=contract.authenticated())
def list_models(services: PortalServices, principal: AnyKey) -> ModelList:
    """The engines that read pages, the default first: their tasks and languages, and for each other task why not."""
    capabilities = services.jobs.engines.capabilities
    return ModelList(data=[model_body(each, is_default=place == 0) for place, each in enumerate(capabilities)])
