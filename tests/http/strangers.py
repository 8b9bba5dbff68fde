"""Sends a large body to every route of the whole application, and tells what was read of it and what was answered.

Run as a process of its own, `python -m tests.http.strangers`: Gradio leaves sockets and event loops open, which the
tests' own process takes for errors. PORTAL_DATA_DIR names a fresh folder; it prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from app import build_app, build_services
from portal import settings
from portal.http.bodies import MAX_BODY_BYTES, BoundedBodies
from portal.web.gradio_routes import ALLOWED, DENIED
from portal.web.headers import SecurityHeaders

CHUNK = b"{}," * 2**14
WHOLE_BYTES = 2**24
_METHODS = {"POST", "PUT", "PATCH", "DELETE"}
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Told:
    """What became of one request: bytes taken of its body, and the answer."""

    method: str
    path: str
    takes_json: bool
    says_length: bool
    taken: int
    status: int
    body: str


class _Body:
    """Gives itself in chunks, and counts what was taken."""

    def __init__(self) -> None:
        self.taken = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        while self.taken < WHOLE_BYTES:
            self.taken += len(CHUNK)
            yield CHUNK


def routes_of(served: Any) -> dict[tuple[str, str], bool]:
    """(method, path) of all routes that may have a body, Gradio's too; and whether FastAPI reads it as JSON."""
    assert isinstance(served, SecurityHeaders)
    bounded = served._app
    assert isinstance(bounded, BoundedBodies)
    assert isinstance(bounded._app, FastAPI)
    found = {("POST", _filled(template)): False for template in (*DENIED, *(route.template for route in ALLOWED))}
    for context in iter_route_contexts(bounded._app.routes):
        for method in _METHODS & set(context.methods or ()):
            found[method, _filled(str(context.path))] = getattr(context, "body_field", None) is not None
    return found


def _filled(template: str) -> str:
    return re.sub(r"\{[^}]*\}", "x", template)


async def _asked(client: httpx.AsyncClient, route: tuple[str, str], takes_json: bool, says_length: bool) -> Told:
    body, (method, path) = _Body(), route
    headers = {"Content-Type": _JSON if path.startswith(("/v1", "/gradio_api")) else _FORM}
    if says_length:
        headers["Content-Length"] = str(WHOLE_BYTES)
    reply = await client.request(method, path, content=body.chunks(), headers=headers)
    return Told(method, path, takes_json, says_length, body.taken, reply.status_code, reply.text)


async def _all(served: Any) -> list[Told]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://portal.example") as client:
        told = [
            await _asked(client, route, takes_json, says_length)
            for route, takes_json in routes_of(served).items()
            for says_length in (True, False)
        ]
        whole = b"[" + b" " * (MAX_BODY_BYTES - 2) + b"]"
        reply = await client.post("/v1/keys", content=whole, headers={"Content-Type": _JSON})
        return [*told, Told("POST", "/v1/keys", True, True, len(whole), reply.status_code, reply.text)]


def main() -> None:
    services = build_services(settings.load())
    told = asyncio.run(_all(build_app(services)))
    sys.stdout.write("\n" + json.dumps([asdict(each) for each in told]) + "\n")
    services.jobs.sandbox.close()
    services.database.dispose()


if __name__ == "__main__":
    main()
