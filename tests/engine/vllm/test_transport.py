"""The transport against servers that do each thing wrong that a connection can: real sockets on 127.0.0.1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import httpx
import pytest

from portal.engine.vllm.transport import AiohttpTransport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _asked(serve: Serve, body: AsyncIterator[bytes] | None = None, **headers: str) -> httpx.Response:
    """The answer of a server that treats each connection so."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/a%2Fb?c=d"
    try:
        async with httpx.AsyncClient(transport=AiohttpTransport(connect_seconds=5)) as client:
            return await client.post(url, content=body, headers=headers)
    finally:
        server.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def _pieces() -> AsyncIterator[bytes]:
    for _ in range(4):
        yield b"x" * 70_000


def test_body_is_sent_as_it_is_when_its_length_is_known() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend([await _head(reader), await reader.readexactly(280_000)])
        writer.write(OK + b"read")

    answer = asyncio.run(_asked(serve, _pieces(), **{"Content-Length": "280000"}))
    assert (answer.status_code, answer.content) == (200, b"read")
    assert seen[0].startswith(b"POST /v1/a%2Fb?c=d HTTP/1.1\r\n")
    assert b"transfer-encoding" not in seen[0].lower()
    assert seen[1] == b"x" * 280_000


def test_answer_is_heard_when_it_comes_before_the_body_is_read() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        await writer.drain()
        await reader.read(2**20)

    answer = asyncio.run(_asked(serve, _pieces(), **{"Content-Length": "280000"}))
    assert (answer.status_code, answer.content) == (401, b"no")


@pytest.mark.parametrize(
    "said", [b"", b"nonsense\r\n\r\n", OK + b"re", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]
)
def test_read_error_tells_when_the_answer_is_none_or_cut(said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        writer.write(said)

    with pytest.raises(httpx.ReadError):
        asyncio.run(_asked(serve))


def test_connect_error_tells_when_nobody_listens() -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(transport=AiohttpTransport(connect_seconds=5)) as client:
            await client.get("http://127.0.0.1:9/")

    with pytest.raises(httpx.ConnectError):
        asyncio.run(ask())


def test_connection_is_closed_when_the_answer_is_left_before_its_end() -> None:
    async def leave() -> bytes:
        left = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _head(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            await reader.read()  # until the other side closes
            left.set()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with httpx.AsyncClient(transport=AiohttpTransport(connect_seconds=5)) as client:
            async with client.stream("GET", url) as answer:
                first = await anext(answer.aiter_raw())
            await asyncio.wait_for(left.wait(), 10)
        server.close()
        return first

    assert asyncio.run(leave()) == b"a"


def test_connection_is_used_again_when_the_answer_was_read() -> None:
    async def ask() -> int:
        connections: list[object] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append(writer)
            with suppress(asyncio.IncompleteReadError):
                while True:
                    await _head(reader)
                    writer.write(OK + b"read")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with httpx.AsyncClient(transport=AiohttpTransport(connect_seconds=5)) as client:
            for _ in range(3):
                await client.get(url)
        server.close()
        return len(connections)

    assert asyncio.run(ask()) == 1
