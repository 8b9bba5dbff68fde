"""What the API says of its engines: OpenAI's and Mistral's models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from portal.api.body import Body
from portal.domain import EngineCapability, Mode, Task


class ModelCapabilitiesBody(Body):
    """What Mistral's clients ask of a model."""

    ocr: bool = True
    vision: bool = True
    completion_chat: bool = False


class ChatOffer(Body):
    """What POST /v1/chat/completions takes for the model."""

    prompts: dict[str, str] = Field(
        description="Texts that any key may send, by mode or task; none where the model takes an image alone"
    )
    max_tokens: int = Field(description="The longest answer")
    max_pixels: int = Field(description="Width × height of an image at most")


class ModelBody(Body):
    """An engine as a model, for OpenAI's and Mistral's clients: what it can read, and why not where it cannot."""

    id: str
    object: Literal["model"] = "model"
    type: Literal["base"] = Field(default="base", description="Mistral's kind of model")
    capabilities: ModelCapabilitiesBody = ModelCapabilitiesBody()
    created: int
    owned_by: str
    checkpoint: str
    profile_version: str
    is_default: bool
    tasks: list[Task]
    languages: list[str]
    unavailable: dict[Task, str] = Field(description="For each task it cannot do, the reason")
    modes: list[Mode] = Field(description="How its 'extract' can be asked")
    targets: list[str] = Field(description="Codes of the languages that it translates into")
    purpose: str = Field(description="What it is good for, in words")
    licence: str = Field(description="Licence of the checkpoint")
    chat: ChatOffer | None = Field(description="null for one that is not on vLLM: it reads jobs only")
    notice: str | None = Field(description="What the licence wants people to be told")


class ModelList(Body):
    """All models, the default first."""

    object: Literal["list"] = "list"
    data: list[ModelBody]


def model_body(capability: EngineCapability, *, is_default: bool, chat: ChatOffer | None) -> ModelBody:
    """An engine's capability in the shape of an OpenAI model. `created` is unknown, so 0."""
    return ModelBody(
        id=capability.name,
        created=0,
        owned_by="portal",
        checkpoint=capability.checkpoint,
        profile_version=capability.profile_version,
        is_default=is_default,
        tasks=sorted(capability.tasks),
        languages=list(capability.languages),
        unavailable=capability.unavailable,
        modes=list(capability.modes),
        targets=list(capability.targets),
        purpose=capability.purpose,
        licence=capability.licence,
        capabilities=ModelCapabilitiesBody(completion_chat=chat is not None),
        chat=chat,
        notice=capability.notice,
    )
