"""Errors to people: the only translator of this edge. No traceback and no exception text of others is ever shown."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import gradio as gr
import structlog
from markupsafe import Markup, escape

from portal.errors import DocumentRefused, Kind, PortalError
from portal.ui import identity, markup

P = ParamSpec("P")

_log = structlog.get_logger(__name__)

_TITLES: dict[Kind, str] = {
    "invalid": "Please check",
    "unauthenticated": "Please sign in again",
    "forbidden": "Not allowed",
    "not_found": "Not found",
    "conflict": "It has changed meanwhile",
    "over_quota": "Limit reached",
    "busy": "Too busy right now",
    "unavailable": "Not available right now",
}


def title(error: PortalError) -> str:
    """A heading for the kind of refusal."""
    return "This file cannot be read" if isinstance(error, DocumentRefused) else _TITLES[error.kind]


def sentence(error: PortalError) -> str:
    """What happened and what to do next, as plain text."""
    return f"{error.message} {error.remedy}".strip()


def unexpected(error: Exception) -> str:
    """Logs an unknown exception under a number and returns the neutral text that carries the number."""
    number = secrets.token_hex(4)
    _log.error("ui.unexpected", number=number, exc_info=error)
    return f"Something went wrong on our side. Try again; if it lasts, tell the operator number {number}."


def inline(error: Exception) -> Markup:
    """The error as a notice inside the page."""
    if isinstance(error, PortalError):
        return markup.notice(title(error), sentence(error))
    return markup.notice("Something went wrong", unexpected(error))


def plain(error: Exception) -> str:
    """The error as one text, for a page that shows it with textContent."""
    return sentence(error) if isinstance(error, PortalError) else unexpected(error)


def told(handler: Callable[P, Any]) -> Callable[P, Any]:
    """Wraps the handler of a person's action: a refusal becomes a message and nothing on the page changes."""

    @wraps(handler)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            with identity.in_request((*args, *kwargs.values())):
                return handler(*args, **kwargs)
        except PortalError as error:
            _warn(sentence(error))
        except Exception as error:  # noqa: BLE001  translator of this edge
            _warn(unexpected(error))
        return gr.skip()

    return wrapped


def polled(handler: Callable[P, Any]) -> Callable[P, Any]:
    """Wraps a timer's handler: a failed tick leaves the page as it is, the next one tries again."""

    @wraps(handler)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return handler(*args, **kwargs)
        except PortalError:
            return gr.skip()
        except Exception as error:  # noqa: BLE001  translator of this edge
            unexpected(error)
            return gr.skip()

    return wrapped


def _warn(text: str) -> None:
    # Gradio renders messages as HTML.
    gr.Warning(str(escape(text)), duration=12)
