"""The fleet's control: JSON over HTTP on a Unix socket in a private folder, and over TCP with a token where asked.

    GET /status · POST /restart · POST /instances/N/drain · POST /instances/N/restart · POST /verify · POST /down

Requests run in threads of their own and hand their command to the supervisor's loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import stat
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import compare_digest
from typing import TYPE_CHECKING, Any

from portal.errors import NotFound, PortalError, SettingsError, Unavailable
from portal.serving.verifying import verified

if TYPE_CHECKING:
    from portal.serving.supervisor import Supervisor

_log = logging.getLogger(__name__)
_COMMAND_SECONDS = 30
_SHORTEST_TOKEN = 32
_INSTANCE = re.compile(r"/instances/(\d{1,4})/(drain|restart)")
_STATUS = {
    "not_found": HTTPStatus.NOT_FOUND,
    "unauthenticated": HTTPStatus.UNAUTHORIZED,
    "conflict": HTTPStatus.CONFLICT,
    "unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
}


class Control:
    """Commands by method and path. Without a token the transport itself is private."""

    def __init__(self, supervisor: Supervisor, loop: asyncio.AbstractEventLoop, token: str | None) -> None:
        self._supervisor, self._loop, self._token = supervisor, loop, token

    def admits(self, authorization: str) -> bool:
        """Whether the caller has shown the token, compared in constant time."""
        return self._token is None or compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    def carry_out(self, method: str, path: str) -> dict[str, Any]:
        """Raises PortalError."""
        if (method, path) == ("GET", "/status"):
            found: dict[str, Any] = self._done(self._supervisor.status())
            return found
        if (method, path) == ("POST", "/verify"):
            return asdict(verified(self._supervisor.fleet))
        if (method, path) == ("POST", "/down"):
            self._loop.call_soon_threadsafe(self._supervisor.down)
        else:
            self._done(self._change(method, path))
        _log.info("carried out: %s %s", method, path)
        return {"accepted": True}

    def _change(self, method: str, path: str) -> Coroutine[Any, Any, None]:
        instance = _INSTANCE.fullmatch(path)
        if (method, path) == ("POST", "/restart"):
            return self._supervisor.restart()
        if method != "POST" or instance is None:
            raise NotFound("The fleet's control has no such command.", remedy="See `python app.py fleet --help`.")
        number = int(instance[1])
        return self._supervisor.drain(number) if instance[2] == "drain" else self._supervisor.restart([number])

    def _done(self, command: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(command, self._loop).result(timeout=_COMMAND_SECONDS)


@contextmanager
def serving_control(supervisor: Supervisor, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Listens while the fleet is up. Raises SettingsError for a token that is none, or a port that is taken."""
    fleet = supervisor.fleet
    with ExitStack() as answering:
        private = _unix_server(fleet.control_socket, Control(supervisor, loop, None))
        answering.callback(fleet.control_socket.unlink, missing_ok=True)
        answering.enter_context(_answering(private))
        if fleet.control.port is not None and fleet.control.token_file is not None:
            control = Control(supervisor, loop, read_token(fleet.control.token_file))
            answering.enter_context(_answering(_tcp_server(fleet.control.host, fleet.control.port, control)))
        yield


@contextmanager
def _answering(server: ThreadingHTTPServer) -> Iterator[None]:
    """Answers in a thread; its loop is ended before its socket is closed, which it would else ask without end."""
    thread = threading.Thread(target=server.serve_forever, name="fleet control", daemon=True)
    try:
        thread.start()
        yield
    finally:
        if thread.ident is not None:
            server.shutdown()
            thread.join()
        server.server_close()


def read_token(path: Path) -> str:
    """Raises SettingsError when the file is readable by others, or the token too short."""
    try:
        token = path.read_text().strip()
        mode = path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"The token's file {path} cannot be read: {error.strerror}.") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{path} can be read by others.", remedy=f"chmod 600 {path}")
    if len(token) < _SHORTEST_TOKEN:
        raise SettingsError(
            f"The token in {path} has {len(token)} characters.", remedy=f"Use {_SHORTEST_TOKEN} or more."
        )
    return token


def _unix_server(path: Path, control: Control) -> ThreadingHTTPServer:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            path.unlink(missing_ok=True)
            self.socket.bind(str(path))
            path.chmod(0o600)

    server = Server(str(path), _handler(control), bind_and_activate=False)  # type: ignore[arg-type]  # a path is meant
    server.server_bind()
    server.server_activate()
    return server


def _tcp_server(host: str, port: int, control: Control) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((host, port), _handler(control))
    except OSError as error:
        raise SettingsError(
            f"The fleet's control cannot listen on {host}, port {port}: {error.strerror}.",
            remedy="Set control.port to a free port of this machine.",
        ) from error


def _handler(control: Control) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _COMMAND_SECONDS
        server_version, sys_version = "fleet", ""

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            if not control.admits(self.headers.get("Authorization", "")):
                refusal = PortalError("The token is missing or wrong.", remedy="Send it as 'Authorization: Bearer …'.")
                self._send(HTTPStatus.UNAUTHORIZED, _problem(refusal))
                return
            try:
                self._send(HTTPStatus.OK, control.carry_out(method, self.path))
            except PortalError as error:
                self._send(_STATUS.get(error.kind, HTTPStatus.UNPROCESSABLE_ENTITY), _problem(error))
            except TimeoutError:
                self._send(HTTPStatus.GATEWAY_TIMEOUT, _problem(Unavailable("The supervisor is busy.")))

        def _send(self, status: HTTPStatus, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = True

        def log_message(self, format: str, *arguments: Any) -> None:
            return

        def address_string(self) -> str:
            return "control"

    return Handler


def _problem(error: PortalError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "remedy": error.remedy}
