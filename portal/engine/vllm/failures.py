"""What can go wrong with a call to vLLM, as EngineErrors: which of them may be tried again, and what people are told.

Facts: vLLM 0.32 and vllm-router 0.1.17 as measured. An image that cannot be decoded is a 500 there, and such a request
sent again and again opens the router's circuits for everybody: so a 500 is final, but for the one of a server that is
being stopped. No answer's body and no key ever goes into the words.
"""

from __future__ import annotations

from typing import Final

from portal.errors import EngineError

AWAY: Final = "engine_unavailable"  # the page is not to blame: accepted work waits until the engine is back

INSTANCE_LOST: Final = "engine_instance_lost"  # one of several behind a router is dead, which that has yet to notice

_UNREACHED = "error sending request"  # vllm-router's own words, in a 500
_STOPPING = "cannot schedule new futures"
_AWAY_STATUSES: Final = frozenset({429, 502, 503, 504})
_ASK_OPERATOR: Final = "Tell the operator; the page can be retried when it is mended. It is not charged."


def away(name: str) -> EngineError:
    """Nobody answers at the engine's address, or it says that it takes no more now."""
    return EngineError(
        f"The engine {name} does not answer.",
        is_permanent=False,
        code=AWAY,
        remedy="Accepted pages wait until it is back; if it lasts, tell the operator.",
    )


def instance_lost(name: str) -> EngineError:
    """The router did not get through to the instance that it chose; it leaves it out within seconds."""
    return EngineError(
        f"An instance of the engine {name} has just ended.",
        is_permanent=False,
        code=INSTANCE_LOST,
        remedy="Accepted pages are read by the others; if it lasts, tell the operator.",
    )


def cut(name: str) -> EngineError:
    """The answer ended without its end mark: the server died, or closed the connection."""
    return EngineError(f"The answer of {name} was cut off.", is_permanent=False, code="engine_stream_cut")


def silent(name: str, seconds: float) -> EngineError:
    """Nothing came for too long."""
    return EngineError(f"{name} said nothing for {seconds:g} seconds.", is_permanent=False, code="engine_silent")


def not_understood(name: str) -> EngineError:
    """What came is not what an OpenAI-compatible server sends."""
    return EngineError(
        f"{name} answers, but not as vLLM does.",
        is_permanent=True,
        code="engine_answer_invalid",
        remedy="Tell the operator: the engine's url must be that of a vLLM or another OpenAI-compatible server, "
        "ending in /v1.",
    )


def unknown_model(name: str, model: str) -> EngineError:
    """The server does not serve what the settings say."""
    return EngineError(
        f"{name} does not serve the model '{model}'.",
        is_permanent=True,
        code="engine_model_unknown",
        remedy=f"Tell the operator: start vLLM with --served-model-name {model}, or correct the engine's model.",
    )


def refused(name: str, model: str, status: int, words: str) -> EngineError:
    """An HTTP error. `words` are the server's own, looked at where its status says too little, and never shown."""
    said = words.lower()
    if status in _AWAY_STATUSES or (status == 500 and _STOPPING in said):
        return away(name)
    if status >= 500 and _UNREACHED in said:
        return instance_lost(name)
    if status in (401, 403):
        return EngineError(
            f"{name} refuses the portal's key.",
            is_permanent=True,
            code="engine_unauthorized",
            remedy=f"Tell the operator: the engine's key (key_file, or PORTAL_VLLM_API_KEY) is wrong. {_ASK_OPERATOR}",
        )
    if status == 404:
        return unknown_model(name, model)
    if 400 <= status < 500:
        return _bad_request(name, said)
    return EngineError(
        f"{name} failed on this page.",
        is_permanent=True,
        code="engine_failed",
        remedy="Send the page as an image of another kind. If many pages fail, tell the operator.",
    )


def _bad_request(name: str, said: str) -> EngineError:
    if any(part in said for part in ("maximum model length", "context length", "max_model_len", "longer than the max")):
        return EngineError(
            f"The page does not fit into what {name} can take in at once.",
            is_permanent=True,
            code="engine_context_too_long",
            remedy="Send the page at a lower resolution; or tell the operator to raise vLLM's --max-model-len.",
        )
    if "image" in said or "multimodal" in said or "multi-modal" in said:
        return EngineError(
            f"{name} does not take this page's image.",
            is_permanent=True,
            code="engine_image_refused",
            remedy="Send the page as another kind of image. If it happens with every page, tell the operator: "
            "the model may take no images.",
        )
    return EngineError(
        f"{name} refuses the request.", is_permanent=True, code="engine_request_refused", remedy=_ASK_OPERATOR
    )
