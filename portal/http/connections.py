"""What a connection may send before it is somebody: request line and headers bounded in bytes and in seconds.

The parser has no such bounds of its own: a header without an end grows in memory and stalls the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 2**10
HEAD_SECONDS = 30.0
_FRAMING = 8  # bytes on the wire for one byte of body in the smallest chunks


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection whose head is too long (431) or too slow (408).

    Counted are the bytes that are neither of the body nor framing of its chunks, so trailers too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fed_bytes = 0
        self._body_bytes = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time for the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the time."""
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feeds the parser, then looks whether it has been fed too much."""
        self._fed_bytes += len(data)
        super().data_received(data)
        if self._fed_bytes - _FRAMING * self._body_bytes > MAX_HEAD_BYTES + len(data):
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        """Starts counting anew, and the time where the connection was kept alive."""
        self._fed_bytes, self._body_bytes = 0, 0
        if self._late is None:
            self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stops the time: from here on the application decides."""
        self._head_came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Counts the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self._refuse, b"408 Request Timeout")

    def _head_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, status: bytes) -> None:
        self._head_came()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
