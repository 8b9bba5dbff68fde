"""httpx's requests sent by aiohttp, whose parser and pool of connections cost a fifth of httpx's own time.

Only what an engine needs: HTTP/1.1, no proxy, no cookies, no redirects; bodies and answers are streamed. An answer that
is closed before its end closes its connection, and so does a call that is cancelled. What fails is told by httpx's
exceptions: ConnectError and ConnectTimeout for a server that was not reached, ReadError for all that comes later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

_IDLE_SECONDS = 4.0  # a server (uvicorn, so vLLM) closes connections that were idle for 5 seconds


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Connections to any server, as many as are asked for, kept alive. Bound to the event loop it was made in."""

    def __init__(self, *, connect_seconds: float) -> None:
        self._timeout = aiohttp.ClientTimeout(sock_connect=connect_seconds)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # httpx does it
            trust_env=False,  # neither a proxy of the environment nor a .netrc is meant for the engine
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer once its headers are there. Raises httpx.TransportError."""
        stream = request.stream
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("The body of the request must be asynchronous.")
        with _translated():
            answer = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers,
                data=stream if _has_body(request) else None,
                allow_redirects=False,
                timeout=self._timeout,
            )
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=_Body(answer), request=request)

    async def aclose(self) -> None:
        """Closes the connections; calls under way fail."""
        await self._session.close()


class _Body(httpx.AsyncByteStream):
    """An answer's body, in the pieces it comes in."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for piece in self._answer.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        if self._answer.content.at_eof():
            self._answer.release()
        else:
            self._answer.close()


def _has_body(request: httpx.Request) -> bool:
    return request.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in request.headers


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx.ConnectTimeout("The server was not reached in time.") from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError("The server was not reached.") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise httpx.UnsupportedProtocol("The address is none of HTTP.") from error
    except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
        raise httpx.ReadError("The connection was lost, or what came is not HTTP.") from error
