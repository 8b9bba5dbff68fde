"""Uploads on their way through to Gradio: counted and looked at chunk by chunk, never held.

Gradio keeps a form field that is not a file in memory, adding each chunk to it; so only file parts named 'files'
pass. Its parser's temporary files stay behind when a browser goes away, and a `gr.File` leaves an empty one at each
event; `sweep` removes those.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import anyio
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from portal.errors import InvalidRequest, PortalError
from portal.web.refusals import UnsupportedMediaType

_DRAIN_SECONDS = 10
_REMEDY = "Upload files with the portal's own page, or send them to /v1/jobs."


class UploadStream:
    """A receive channel for Gradio that stops at the first thing wrong and remembers it in `refusal`.

    `is_read` says that the browser has sent all it had.
    `count` is called with the size in bytes of each chunk and may raise a PortalError. Stopping means a part
    header no parser takes: Gradio then removes the temporary files it wrote, which it does not do for a disconnect.
    """

    def __init__(self, scope: Scope, receive: Receive, *, count: Callable[[int], None], max_files: int) -> None:
        self.refusal: PortalError | None = None
        self.is_read = False
        self._receive = receive
        self._count = count
        self._boundary = _boundary(scope)
        self._parts = _Parts(self._boundary, max_files)

    async def receive(self) -> Message:
        """The next ASGI message."""
        if self.refusal is not None:
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        body = message.get("body", b"")
        self.is_read = not message.get("more_body", False)
        try:
            self._count(len(body))
            self._parts.write(body)
        except PortalError as error:
            self.refusal = error
            poison = b"\r\n--" + self._boundary + b"\r\n(:\r\n"
            return {"type": "http.request", "body": poison, "more_body": True}
        return message


class _Parts:
    """Follows the multipart body with the parser that Gradio uses, and lets only file parts pass."""

    def __init__(self, boundary: bytes, max_files: int) -> None:
        self._max_files = max_files
        self._files = 0
        self._field = b""
        self._value = b""
        self._disposition = b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._on_field,
                    "on_header_value": self._on_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._check_part,
                },
            )
        except FormParserError as error:
            raise _malformed() from error

    def write(self, body: bytes) -> None:
        try:
            self._parser.write(body)
        except FormParserError as error:
            raise _malformed() from error

    def _begin(self) -> None:
        self._field = self._value = self._disposition = b""

    def _on_field(self, chunk: bytes, start: int, end: int) -> None:
        self._field += chunk[start:end]

    def _on_value(self, chunk: bytes, start: int, end: int) -> None:
        self._value += chunk[start:end]

    def _end_header(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field = self._value = b""

    def _check_part(self) -> None:
        _, options = parse_options_header(self._disposition)
        if options.get(b"name") != b"files" or b"filename" not in options:
            raise InvalidRequest("An upload holds files only.", remedy=_REMEDY)
        self._files += 1
        if self._files > self._max_files:
            raise InvalidRequest(
                f"More than {self._max_files} files in one upload.", remedy="Upload fewer files at once."
            )


async def drain(receive: Receive) -> None:
    """Reads what a browser still sends: an answer that overtakes the upload reaches it as a reset connection."""
    with anyio.move_on_after(_DRAIN_SECONDS):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return


def sweep(upload_dir: Path, *, older_than_seconds: float) -> int:
    """Removes stray temporary files that lie directly in Gradio's upload folder; gives their number.

    Finished uploads lie one folder deeper and are Gradio's `delete_cache` to remove.
    """
    oldest = time.time() - older_than_seconds
    removed = 0
    for path in upload_dir.glob("tmp*"):
        try:
            if path.is_file() and not path.is_symlink() and path.stat().st_mtime < oldest:
                path.unlink()
                removed += 1
        except FileNotFoundError:
            continue
    return removed


def _boundary(scope: Scope) -> bytes:
    types = Headers(scope=scope).getlist("content-type")
    kind, options = parse_options_header(types[0] if len(types) == 1 else b"")
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise UnsupportedMediaType("An upload is multipart/form-data with a boundary.", remedy=_REMEDY)
    return boundary


def _malformed() -> InvalidRequest:
    return InvalidRequest("The upload is not well-formed multipart/form-data.", remedy=_REMEDY)
