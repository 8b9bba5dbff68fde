"""Failures of the servers beside the one that reads: the text model that translates, the engine that picks fields.

Told apart from the reader's own by their codes, so that its lane goes on and only the page that needs them waits
(portal/jobs/execution.py). What was read meanwhile is kept, so that the page is not read again for them.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

from portal.domain import PageText
from portal.engine.base import Call
from portal.errors import EngineError

TEXT_MODEL_AWAY: Final = "text_model_unavailable"
TEXT_MODEL_FAILED: Final = "text_model_failed"
PICKER_AWAY: Final = "field_picker_unavailable"
PICKER_FAILED: Final = "field_picker_failed"
SECOND_AWAY: Final = frozenset({TEXT_MODEL_AWAY, PICKER_AWAY})

_MOST_KEPT = 256
_NOT_CHARGED = "The page is not charged, and can be retried when it is mended."
_TEXT_MODEL_REMEDIES: Final = {
    "engine_unauthorized": "PORTAL_TRANSLATE_API_KEY is wrong.",
    "engine_model_unknown": "the server at PORTAL_TRANSLATE_URL does not serve PORTAL_TRANSLATE_MODEL.",
    "engine_answer_invalid": "PORTAL_TRANSLATE_URL must be that of an OpenAI-compatible server, ending in /v1.",
    "engine_context_too_long": "PORTAL_TRANSLATE_MODEL takes in too little at once; start its server with a longer "
    "context (vLLM: --max-model-len 8192).",
}


def of_text_model(failure: EngineError) -> EngineError:
    """The failure of a request to the text model, as one of that and in the names of its own settings."""
    if not failure.is_permanent:
        return EngineError(
            "The page was read, but the text model that translates does not answer.",
            is_permanent=False,
            code=TEXT_MODEL_AWAY,
            remedy="Retry the page later; if it lasts, tell the operator (PORTAL_TRANSLATE_URL). It is not charged.",
        )
    reason = _TEXT_MODEL_REMEDIES.get(failure.code, "look into the log of the server at PORTAL_TRANSLATE_URL.")
    return EngineError(
        f"The page was read, but not translated: {_TEXT_MODEL_WORDS.get(failure.code, 'the text model failed')}.",
        is_permanent=True,
        code=TEXT_MODEL_FAILED,
        remedy=f"Tell the operator: {reason} {_NOT_CHARGED}",
    )


_TEXT_MODEL_WORDS: Final = {
    "engine_unauthorized": "the text model refuses the portal's key",
    "engine_model_unknown": "the text model is not served",
    "engine_answer_invalid": "what answers in the text model's place is none",
    "engine_context_too_long": "a part of its text is longer than the text model takes in at once",
}


def of_picker(failure: EngineError, reader: str, picker: str) -> EngineError:
    """The failure of the engine `picker`, which picks the fields of pages that `reader` has read."""
    if not failure.is_permanent:
        return EngineError(
            f"The page was read, but the engine {picker}, which picks its fields, does not answer.",
            is_permanent=False,
            code=PICKER_AWAY,
            remedy=f"Retry it later; if it lasts, tell the operator (fields_with of {reader}). It is not charged.",
        )
    return EngineError(
        f"The page was read, but its fields were not picked: {failure.message}",
        is_permanent=True,
        code=PICKER_FAILED,
        remedy=f"{failure.remedy} {picker} is what fields_with of the engine {reader} names.",
    )


class KeptReadings:
    """The latest pages that were read and still wait for a second server. In memory: what is lost is read again."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, PageText] = OrderedDict()
        self._lock = Lock()

    def keep(self, call: Call, page: PageText) -> None:
        """Keeps the reading of the call's page; of a call that names none it keeps nothing."""
        with self._lock:
            if call.page:
                self._pages[call.page] = page
            while len(self._pages) > _MOST_KEPT:
                self._pages.popitem(last=False)

    def take(self, call: Call) -> PageText | None:
        """The reading of the call's page, once."""
        with self._lock:
            return self._pages.pop(call.page, None)
