"""An instance's side of the store's socket: attach, and hold the socket open as long as the weights are in use."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .faults import SharedWeightsError
from .manifest import Manifest
from .transports import Handle
from .wire import BrokenConversation, Message, receive, send

_ANSWER_SECONDS = 30
_RETRY_SECONDS = 0.2


@dataclass(frozen=True)
class Attachment:
    """What a store gave. `lease` is the open socket: closing it tells the store that this reader has gone."""

    manifest: Manifest
    handle: Handle
    lease: socket.socket


def attach(path: Path, *, name: str, wait_seconds: float = 0) -> Attachment:
    """Waits so long for a store to stand, then attaches. Raises SharedWeightsError."""
    connection = _connected(path, time.monotonic() + wait_seconds)
    try:
        answer = _asked(connection, path, {"ask": "attach", "name": name, "pid": os.getpid()})
        try:
            manifest = Manifest.from_json(answer.body["manifest"])
        except SharedWeightsError:
            if answer.descriptor is not None:
                os.close(answer.descriptor)
            raise
        connection.settimeout(None)
        return Attachment(manifest, Handle(answer.body["handle"], answer.descriptor), connection)
    except BaseException:
        connection.close()
        raise


def status(path: Path) -> dict[str, Any]:
    """What the store holds and who reads it. Raises SharedWeightsError when there is none."""
    connection = _connected(path, time.monotonic())
    with connection:
        return _asked(connection, path, {"ask": "status"}).body


def _connected(path: Path, deadline: float) -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            if time.monotonic() >= deadline or isinstance(error, PermissionError):
                raise SharedWeightsError(
                    f"No weight store answers at {path}: {error.strerror or error}.",
                    "Start the store first (python app.py fleet up), as the same user; nothing is loaded without it.",
                ) from error
            time.sleep(_RETRY_SECONDS)
        else:
            return connection


def _asked(connection: socket.socket, path: Path, body: dict[str, Any]) -> Message:
    try:
        send(connection, body)
        answer = receive(connection)
    except (OSError, BrokenConversation) as error:
        raise SharedWeightsError(
            f"The weight store at {path} ended, or did not answer within {_ANSWER_SECONDS} seconds: {error}.",
            "See the store's log; try again when it stands.",
        ) from error
    if not answer.body.get("ok"):
        raise SharedWeightsError(
            str(answer.body.get("message", "The store refused.")), str(answer.body.get("remedy", ""))
        )
    return answer
