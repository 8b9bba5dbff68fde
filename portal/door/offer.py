"""Which engines the door leads to: those on vLLM, by their names, their checkpoints' names, or `default`."""

from __future__ import annotations

from portal.engine.base import Engine
from portal.engine.placing import innermost
from portal.engine.vllm.engine import VllmEngine
from portal.engine.vllm.failures import away
from portal.errors import TaskUnavailable
from portal.jobs.context import DEFAULT, Engines
from portal.jobs.waiting import come_back_later


def vllm_of(engine: Engine) -> VllmEngine | None:
    """The engine on vLLM behind this one, None where there is none and chats cannot be passed on."""
    engine = innermost(engine)
    return engine if isinstance(engine, VllmEngine) else None


def chosen(engines: Engines, name: str) -> tuple[Engine, VllmEngine]:
    """The engine that a request names, and its vLLM.

    Raises InvalidRequest (unknown_model), and TaskUnavailable for one that is not on vLLM.
    """
    offered = [engine.capability.name for engine in engines.all if vllm_of(engine) is not None]
    if not offered:
        raise TaskUnavailable(
            "Chat completions need an engine on vLLM, and none is configured here.",
            remedy="Use POST /v1/jobs or /v1/ocr; or ask the operator to name a vLLM (PORTAL_VLLM_URL).",
        )
    engine = engines.get(offered[0] if name == DEFAULT else name)
    vllm = vllm_of(engine)
    if vllm is None:
        raise TaskUnavailable(
            f"{engine.capability.name} is not on vLLM and takes no chat completions.",
            remedy=f"Use one of: {', '.join(offered)}; or POST /v1/jobs, which every engine takes.",
        )
    return engine, vllm


def require_ready(engines: Engines, engine: Engine) -> None:
    """Raises EngineError (engine_unavailable) at once when the engine is away: nobody waits for it on a connection."""
    if not engines.is_ready(engine):
        raise come_back_later(away(engine.capability.name))
