"""Failures of the servers beside the one that reads: the text model that translates, the engine that picks fields.

Told apart from the reader's own by their codes, so that its lane goes on and only the page that needs them waits
(portal/jobs/execution.py). They have a time of their own, and what was read goes along with their failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from portal.engine.base import Call
from portal.errors import EngineError
from portal.page_text import PageText

TEXT_MODEL_AWAY: Final = "text_model_unavailable"
TEXT_MODEL_FAILED: Final = "text_model_failed"
PICKER_AWAY: Final = "field_picker_unavailable"
PICKER_FAILED: Final = "field_picker_failed"

_TOO_SLOW = "engine_silent"
_NOT_CHARGED = "The page is not charged, and can be retried when it is mended."
_TEXT_MODEL_REMEDIES: Final = {
    "engine_unauthorized": "PORTAL_TRANSLATE_API_KEY is wrong.",
    "engine_model_unknown": "the server at PORTAL_TRANSLATE_URL does not serve PORTAL_TRANSLATE_MODEL.",
    "engine_answer_invalid": "PORTAL_TRANSLATE_URL must be that of an OpenAI-compatible server, ending in /v1.",
    "engine_context_too_long": "PORTAL_TRANSLATE_MODEL takes in too little at once; start its server with a longer "
    "context (vLLM: --max-model-len 8192).",
    TEXT_MODEL_FAILED: "PORTAL_TRANSLATE_MODEL may be too small for the language or for such pages.",
}


class SecondServerError(EngineError):
    """A server beside the engine failed after `page` was read. `cause` is the code of its own failure.

    One that is not permanent says that the server is away, or too slow: the page waits for it.
    """

    def __init__(self, message: str, *, is_permanent: bool, code: str, remedy: str, cause: str) -> None:
        super().__init__(message, is_permanent=is_permanent, code=code, remedy=remedy)
        self.cause = cause
        self.page: PageText | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.message, self.is_permanent, self.code, self.remedy, self.cause)


def _rebuild(message: str, is_permanent: bool, code: str, remedy: str, cause: str) -> SecondServerError:
    return SecondServerError(message, is_permanent=is_permanent, code=code, remedy=remedy, cause=cause)


async def asked_beside(
    call: Call, page: PageText, asking: Awaitable[PageText], named: Callable[[EngineError], SecondServerError]
) -> PageText:
    """What a server beside the engine makes of `page`, within the call's own time for that.

    Raises SecondServerError as `named` words it, with the page.
    """
    if call.on_read is not None:
        call.on_read()
    try:
        async with asyncio.timeout(call.second_seconds):
            return await asking
    except TimeoutError:
        failure = named(EngineError("It took too long.", is_permanent=False, code=_TOO_SLOW))
    except EngineError as error:
        failure = named(error)
    failure.page = page
    raise failure from None


def of_text_model(failure: EngineError) -> SecondServerError:
    """The failure of a request to the text model, as one of that and in the names of its own settings."""
    if not failure.is_permanent:
        return SecondServerError(
            f"The page was read, but the text model that translates does not answer{_in_time(failure)}.",
            is_permanent=False,
            code=TEXT_MODEL_AWAY,
            remedy="Retry the page later; if it lasts, tell the operator (PORTAL_TRANSLATE_URL). It is not charged.",
            cause=failure.code,
        )
    reason = _TEXT_MODEL_REMEDIES.get(failure.code, "look into the log of the server at PORTAL_TRANSLATE_URL.")
    return SecondServerError(
        f"The page was read, but not translated: {_TEXT_MODEL_WORDS.get(failure.code, 'the text model failed')}.",
        is_permanent=True,
        code=TEXT_MODEL_FAILED,
        remedy=f"Tell the operator: {reason} {_NOT_CHARGED}",
        cause=failure.code,
    )


def nothing_translated() -> EngineError:
    """The failure of a translation in which no part of the page came back whole."""
    return EngineError(
        f"The page was read, but not translated: {_TEXT_MODEL_WORDS[TEXT_MODEL_FAILED]}.",
        is_permanent=True,
        code=TEXT_MODEL_FAILED,
        remedy="Retry the page; if it lasts, tell the operator: the model may be too small for the language or for "
        f"such pages. {_NOT_CHARGED}",
    )


def _in_time(failure: EngineError) -> str:
    return " in time" if failure.code == _TOO_SLOW else ""


_TEXT_MODEL_WORDS: Final = {
    "engine_unauthorized": "the text model refuses the portal's key",
    "engine_model_unknown": "the text model is not served",
    "engine_answer_invalid": "what answers in the text model's place is none",
    "engine_context_too_long": "a part of its text is longer than the text model takes in at once",
    TEXT_MODEL_FAILED: "the text model broke every part of it, twice each",
}


def of_picker(failure: EngineError, reader: str, picker: str) -> SecondServerError:
    """The failure of the engine `picker`, which picks the fields of pages that `reader` has read."""
    if not failure.is_permanent:
        return SecondServerError(
            f"The page was read, but the engine {picker}, which picks its fields, does not answer{_in_time(failure)}.",
            is_permanent=False,
            code=PICKER_AWAY,
            remedy=f"Retry it later; if it lasts, tell the operator (fields_with of {reader}). It is not charged.",
            cause=failure.code,
        )
    return SecondServerError(
        f"The page was read, but its fields were not picked: {failure.message}",
        is_permanent=True,
        code=PICKER_FAILED,
        remedy=f"{failure.remedy} {picker} is what fields_with of the engine {reader} names.",
        cause=failure.code,
    )
