"""/v1/models: the configured engines in the shape of OpenAI's list, with what each can do."""

from __future__ import annotations

from fastapi import APIRouter

from portal.api import contract
from portal.api.access import AnyKey
from portal.api.model_schemas import ChatOffer, ModelList, model_body
from portal.api.problems import ProblemRoute
from portal.door.offer import vllm_of
from portal.door.order import prompts
from portal.engine.base import Engine
from portal.http.given import PortalServices

routes = APIRouter(prefix="/v1/models", tags=["Models"], route_class=ProblemRoute)


@routes.get("", summary="List models", responses=contract.authenticated())
def list_models(services: PortalServices, principal: AnyKey) -> ModelList:
    """The engines that read pages, the default first: their tasks and languages, and for each other task why not.

    `chat` says what `/v1/chat/completions` takes for an engine on vLLM.
    """
    engines = services.jobs.engines.all
    return ModelList(
        data=[
            model_body(engine.capability, is_default=place == 0, chat=_chat_offer(engine))
            for place, engine in enumerate(engines)
        ]
    )


def _chat_offer(engine: Engine) -> ChatOffer | None:
    vllm = vllm_of(engine)
    if vllm is None:
        return None
    profile = vllm.options.profile
    return ChatOffer(prompts=prompts(profile), max_tokens=vllm.max_tokens, max_pixels=profile.image.max_taken_pixels)
