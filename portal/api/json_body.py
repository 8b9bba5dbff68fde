r"""Reads a JSON body that carries a file as a data: URL, in constant memory.

The base64 text of a data: URL is decoded to disk as it comes; the JSON that is kept has a placeholder in its place,
which only this request knows. What a client may write for it (`\/`, `\u002B`) is understood.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import anyio
from fastapi import Request
from starlette.concurrency import run_in_threadpool

from portal.api.incoming import IncomingFile, body_too_large, refuse_large_body
from portal.api.problems import malformed_body
from portal.errors import DocumentRefused, InvalidRequest
from portal.http.bodies import bound_by_reader

_MAX_KEPT_BYTES = 256 * 2**10
_MAX_HEADER_BYTES = 256
_FED_AT_ONCE_BYTES = 2**19  # a change of threads for each piece of a body costs more than the piece
_QUOTE = re.compile(rb'"')
_MARK_IN_STRING = re.compile(rb'["\\,]')
_DATA_URL_HEADER = re.compile(rb"data:([^;,]*)(?:;[^;,]+)*;base64,", re.IGNORECASE)
_SPACE = b" \t\n\r\x0b\x0c"
_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_LONGEST_ESCAPE = 6
_ESCAPES = (
    *((rb"\/", b"/"), (rb"\n", b""), (rb"\r", b""), (rb"\t", b"")),
    *((rb"\u002B", b"+"), (rb"\u002b", b"+"), (rb"\u002F", b"/"), (rb"\u002f", b"/")),
    *((rb"\u003D", b"="), (rb"\u003d", b"=")),
)


class Sink(Protocol):
    """Where the bytes of the data: URL go."""

    def write(self, chunk: bytes, /) -> None:
        """Appends. Raises PortalError when they are too many."""

    def close(self) -> None:
        """No more will come. Closing twice is harmless."""


File = TypeVar("File", bound=Sink)


class Base64File:
    """Decodes base64 text, JSON-escaped and in pieces of any length, into a file."""

    def __init__(self, file: Sink) -> None:
        self.file = file
        self._cut = b""
        self._rest = b""

    def write(self, text: bytes) -> None:
        """Raises DocumentRefused when the text is not base64 or the file grows too large."""
        text = self._cut + text if self._cut else text
        cut = _CUT_ESCAPE.search(text, max(0, len(text) - _LONGEST_ESCAPE))
        self._cut = cut[0] if cut else b""
        text = self._rest + _plain(text[: cut.start()] if cut else text)
        whole = len(text) - len(text) % 4
        self._rest = text[whole:]
        self.file.write(_decoded(text[:whole] if self._rest else text))

    def close(self) -> None:
        """Decodes what is left, also where the sender left the padding out."""
        rest = self._rest + _plain(self._cut)
        self.file.write(_decoded(rest + b"=" * (-len(rest) % 4)))
        self.file.close()


class JsonBody(Generic[File]):
    """A JSON text in pieces: feed it, then ask for its `value`. At most one data: URL is spilled to `file`."""

    def __init__(self, open_file: Callable[[], File]) -> None:
        self.file: File | None = None
        self.media_type = ""
        self.placeholder = f"data:;base64,{secrets.token_hex(16)}"
        self._open_file = open_file
        self._kept = bytearray()
        self._string_start: int | None = None
        self._is_escaped = False
        self._decoder: Base64File | None = None

    def feed(self, chunk: bytes) -> None:
        """Takes the next piece. Raises DocumentRefused or InvalidRequest."""
        at = 0
        while at < len(chunk):
            decoder = self._decoder
            at = self._keep(chunk, at) if decoder is None else self._spill(decoder, chunk, at)
            if len(self._kept) > _MAX_KEPT_BYTES:
                raise malformed_body(
                    "The body is too long beside its document.",
                    remedy="Send the document as a base64 data: URL and only the parameters of /docs beside it.",
                )

    def value(self) -> Any:
        """The JSON value, with `placeholder` where the spilled data: URL was. Raises InvalidRequest."""
        try:
            return json.loads(self._kept.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise malformed_body(
                "The body is not valid JSON.", remedy="Send valid JSON with 'Content-Type: application/json'."
            ) from error

    @property
    def kept_bytes(self) -> int:
        """How long the text is that `value` reads."""
        return len(self._kept)

    def close(self) -> None:
        """Closes the spilled file, also when the body was cut short."""
        if self.file is not None:
            self.file.close()

    def _keep(self, chunk: bytes, at: int) -> int:
        """Keeps bytes up to the next mark that matters and returns the place after it."""
        if self._is_escaped:
            self._is_escaped = False
            self._kept += chunk[at : at + 1]
            return at + 1
        inside = self._string_start is not None
        mark = (_MARK_IN_STRING if inside else _QUOTE).search(chunk, at)
        end = mark.end() if mark else len(chunk)
        self._kept += chunk[at:end]
        if mark is None:
            return end
        if mark[0] == b'"':
            self._string_start = None if inside else len(self._kept)
        elif mark[0] == b"\\":
            self._is_escaped = True
        else:
            self._open_data_url()
        return end

    def _open_data_url(self) -> None:
        start = self._string_start or 0
        if len(self._kept) - start > _MAX_HEADER_BYTES:
            return
        header = _DATA_URL_HEADER.fullmatch(self._kept, start)
        if header is None:
            return
        if self.file is not None:
            raise InvalidRequest(
                "The body carries more than one data: URL.", remedy="Send one document in each request."
            )
        self.media_type = header[1].replace(b"\\/", b"/").decode("ascii", "replace").lower()
        self._kept[start:] = self.placeholder.encode()
        self.file = self._open_file()
        self._decoder = Base64File(self.file)

    def _spill(self, decoder: Base64File, chunk: bytes, at: int) -> int:
        quote = chunk.find(b'"', at)
        decoder.write(chunk[at : quote if quote >= 0 else len(chunk)])
        if quote < 0:
            return len(chunk)
        decoder.close()
        self._decoder = None
        return quote  # `_keep` takes the quote as the string's end


async def read_json_body(
    request: Request, folder: Path, *, file_name: str, max_file_bytes: int
) -> JsonBody[IncomingFile]:
    """Reads the whole body, its data: URL to a file in `folder`. Raises as `fill` does."""
    body = JsonBody(lambda: IncomingFile(folder / "document", file_name, max_file_bytes))
    await fill(body, request, max_file_bytes=max_file_bytes)
    return body


async def fill(body: JsonBody[File], request: Request, *, max_file_bytes: int) -> None:
    """Feeds the request's body into `body`, and closes its file.

    Raises InvalidRequest (malformed_body when it is no JSON), DocumentRefused (file_too_large, file_corrupt),
    ClientDisconnect when the sender went away.
    """
    limit_bytes = max_file_bytes * 3 // 2 + _MAX_KEPT_BYTES
    refuse_large_body(request, limit_bytes)
    bound_by_reader(request.scope)
    received_bytes, waiting = 0, bytearray()
    try:
        async for chunk in request.stream():
            received_bytes += len(chunk)
            if received_bytes > limit_bytes:
                raise body_too_large(limit_bytes)
            waiting += chunk
            if len(waiting) >= _FED_AT_ONCE_BYTES:
                fed, waiting = bytes(waiting), bytearray()
                await run_in_threadpool(body.feed, fed)
        await run_in_threadpool(_finish, body, bytes(waiting))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(body.close)
        raise


def _finish(body: JsonBody[File], rest: bytes) -> None:
    body.feed(rest)
    body.close()


def _not_base64() -> DocumentRefused:
    return DocumentRefused(
        "The data: URL is not valid base64.",
        code="file_corrupt",
        remedy="Encode the whole file with base64 (standard alphabet) after 'data:<media type>;base64,'.",
    )


def _plain(text: bytes) -> bytes:
    if b"\\" in text:
        for escape, character in _ESCAPES:
            text = text.replace(escape, character)
    return text.translate(None, _SPACE)


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _not_base64() from error
