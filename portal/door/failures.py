"""What the caller is told when the engine failed: its own fault, the image's, or the engine's."""

from __future__ import annotations

from portal.engine.vllm.failures import AWAY
from portal.errors import EngineError, InvalidRequest, PortalError
from portal.jobs.waiting import come_back_later

# Said by the engine of this very request: sending it again fails alike. A 500 is among them: vLLM answers so to an
# image that it cannot decode.
_OF_THE_REQUEST = frozenset(
    {"engine_failed", "engine_image_refused", "engine_context_too_long", "engine_request_refused"}
)
_REMEDIES = {
    "engine_context_too_long": "Send the image at a lower resolution, or a shorter prompt. Nothing was charged.",
    "engine_request_refused": "Leave parameters out that the model does not know. Nothing was charged.",
}
_OTHER_IMAGE = "Send the image as another kind of file; if many fail, tell the operator. Nothing was charged."


def refusal_of(error: EngineError) -> PortalError:
    """The refusal that the caller is given for an engine's failure."""
    if error.code in _OF_THE_REQUEST:
        message = "The engine cannot read this image." if error.code == "engine_failed" else error.message
        return InvalidRequest(message, code=error.code, remedy=_REMEDIES.get(error.code, _OTHER_IMAGE))
    if error.code == AWAY:
        return come_back_later(error)
    error.remedy = "Nothing was charged. Try again; if it lasts, tell the operator."
    return error


def too_slow() -> EngineError:
    """The request's deadline has passed."""
    return EngineError(
        "The answer was not complete within the time that one may take.",
        is_permanent=True,
        code="page_timeout",
        remedy="Try again; if it lasts, tell the operator, who may raise PORTAL_PAGE_SECONDS.",
    )
