"""Who is calling, and what the page's address asks for: the only place that opens a `gr.Request`.

The guard of portal/web proves the caller and leaves the Principal in the ASGI scope, on every kind of event
(load, queued, timer). Ids in the address are wishes: whoever uses them passes the tenant along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gradio as gr
import structlog

from portal.domain import Principal
from portal.errors import NotFound, Unauthenticated
from portal.settings import Settings


def principal_of(request: gr.Request) -> Principal:
    """The proven caller. Raises Unauthenticated where the guard let nobody in."""
    principal = _state(request).get("principal")
    if not isinstance(principal, Principal):
        raise Unauthenticated("You are signed out.", remedy="Reload the page and sign in again.")
    return principal


def admin_of(request: gr.Request) -> Principal:
    """The proven caller, an admin of the portal. Raises NotFound for everybody else."""
    principal = principal_of(request)
    if not principal.is_admin:
        raise NotFound("There is no such page.", remedy="Go to the start page.")
    return principal


@contextmanager
def in_request(arguments: Iterable[object]) -> Iterator[None]:
    """Logs and audit entries of the block name the request that the arguments of a handler carry.

    Gradio runs queued events outside of the request that brought them.
    """
    request = next((argument for argument in arguments if isinstance(argument, gr.Request)), None)
    request_id = _state(request).get("request_id") if request is not None else None
    if request_id is None:
        yield
        return
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        yield


def csrf_token_of(request: gr.Request) -> str:
    """The token that the session's forms carry; empty where there is none."""
    return str(_state(request).get("csrf_token") or "")


def asked(request: gr.Request, name: str) -> str:
    """One parameter of the page's present address; empty where it is missing.

    The browser sends the address along with each event, also after `history.pushState`.
    """
    return str(_query(request).get(name) or "")


def base_url_of(request: gr.Request, settings: Settings) -> str:
    """How callers reach the portal: PORTAL_PUBLIC_URL, else what this browser used. No slash at the end."""
    if settings.server.public_url:
        return settings.server.public_url
    connection = request.request
    if connection is None:
        raise Unauthenticated("This event came without its request.")
    return f"{connection.url.scheme}://{connection.url.netloc}"


def _state(request: gr.Request) -> Mapping[str, Any]:
    connection = request.request
    state: Mapping[str, Any] = connection.scope.get("state", {}) if connection is not None else {}
    return state


def _query(request: gr.Request) -> Mapping[str, str]:
    connection = request.request
    return connection.query_params if connection is not None else {}
