"""Steers a fleet from another process: the command line asks its control through this, other programs may."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from portal.errors import Conflict, NotFound, PortalError, Unavailable
from portal.serving.verifying import Verification

_ANSWER_SECONDS = 35.0
_VERIFY_SECONDS = 630.0
_KINDS: dict[int, type[PortalError]] = {404: NotFound, 409: Conflict}


@dataclass(frozen=True)
class FleetControl:
    """Either a Unix socket, or a URL and a token."""

    socket_path: Path | None = None
    url: str = "http://fleet"
    token: str | None = field(default=None, repr=False)

    def status(self) -> dict[str, Any]:
        """Store, router and instances as they are now. Raises PortalError."""
        return self._ask("GET", "/status")

    def drain(self, number: int) -> None:
        """Raises PortalError."""
        self._ask("POST", f"/instances/{number}/drain")

    def restart(self, number: int | None = None) -> None:
        """One instance, or all, one by one. Raises PortalError."""
        self._ask("POST", "/restart" if number is None else f"/instances/{number}/restart")

    def verify(self) -> Verification:
        """What the check of all tensors found. Raises PortalError when they could not be checked."""
        found = self._ask("POST", "/verify", seconds=_VERIFY_SECONDS)
        return Verification(str(found["said"]), bool(found["is_damaged"]))

    def down(self) -> None:
        """Raises PortalError."""
        self._ask("POST", "/down")

    def _ask(self, method: str, path: str, seconds: float = _ANSWER_SECONDS) -> dict[str, Any]:
        transport = httpx.HTTPTransport(uds=str(self.socket_path)) if self.socket_path else None
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            self._refuse_dead_socket()
            with httpx.Client(transport=transport, trust_env=False, timeout=seconds, headers=headers) as client:
                answer = client.request(method, f"{self.url}{path}")
                body: dict[str, Any] = answer.json()
            if not isinstance(body, dict):
                raise ValueError("what answers is no fleet")
        except (httpx.HTTPError, OSError, ValueError) as error:
            raise Unavailable(
                f"The fleet does not answer at {self.socket_path or self.url}: {error}.",
                remedy="Start it on the GPU box: python app.py fleet up --config FILE.",
            ) from error
        if answer.is_success:
            return body
        kind = _KINDS.get(answer.status_code, Unavailable)
        raise kind(str(body.get("message", "The fleet refused.")), remedy=str(body.get("remedy", "")) or None)

    def _refuse_dead_socket(self) -> None:
        """Connects once beforehand: httpcore forgets to close a socket that could not connect."""
        if self.socket_path is not None:
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.connect(str(self.socket_path))
