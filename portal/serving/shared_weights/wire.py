"""Messages over a Unix socket: four bytes of length, JSON, and perhaps one file descriptor; and who the peer is."""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .manifest import parsed_json

_LENGTH = struct.Struct("!IB")
_MAX_MESSAGE_BYTES = 64 << 20
_CREDENTIALS = struct.Struct("3i")


class BrokenConversation(Exception):
    """The peer went away in the midst of a message, or said something that is none."""


@dataclass(frozen=True)
class Message:
    """What came: a JSON object, and a descriptor that the receiver must close (None where none was sent)."""

    body: dict[str, Any]
    descriptor: int | None = None


@dataclass(frozen=True)
class Peer:
    """The process at the other end, as the kernel says when it connected."""

    pid: int
    uid: int


def send(connection: socket.socket, body: dict[str, Any], descriptor: int | None = None) -> None:
    """Sends one message whole. Raises OSError."""
    text = json.dumps(body).encode()
    head = _LENGTH.pack(len(text), descriptor is not None)
    if descriptor is None:
        connection.sendall(head)
    else:
        sent = socket.send_fds(connection, [head], [descriptor])
        connection.sendall(head[sent:])
    connection.sendall(text)


def receive(connection: socket.socket) -> Message:
    """Waits for one message whole. Raises BrokenConversation or TimeoutError; keeps no descriptor then."""
    descriptors: list[int] = []
    try:
        head = b""
        while len(head) < _LENGTH.size:
            part, found, _, _ = socket.recv_fds(connection, _LENGTH.size - len(head), 4)
            descriptors += found
            head += _not_empty(part)
        length, carries = _LENGTH.unpack(head)
        if length > _MAX_MESSAGE_BYTES or len(descriptors) != carries:
            raise BrokenConversation("the peer sent something that is no message")
        body = parsed_json(_exactly(connection, length))
    except BaseException as error:
        _close(descriptors)
        if isinstance(error, TimeoutError) or not isinstance(error, (OSError, ValueError)):
            raise
        raise BrokenConversation(str(error)) from error
    return Message(body, descriptors[0] if descriptors else None)


def peer_of(connection: socket.socket) -> Peer:
    """Who connected (Linux)."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(packed)
    return Peer(pid, uid)


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        parts += _not_empty(connection.recv(min(length - len(parts), 1 << 20)))
    return bytes(parts)


def _not_empty(part: bytes) -> bytes:
    if not part:
        raise BrokenConversation("the peer closed the connection")
    return part


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
