"""A head without an end is refused early, whatever hides it; honest requests pass."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from portal.http import connections


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = Starlette(routes=[Route("/{rest:path}", _length, methods=["GET", "POST"])])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=connections.BoundedHttpProtocol, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(timeout=10)


def _sent(port: int, start: bytes, filler: bytes, *, most: int = 200) -> bytes:
    """Sends `start`, then filler until the server answers or `most` pieces are sent; gives its first line."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(start)
        connection.settimeout(0.02)
        for _ in range(most):
            try:
                connection.sendall(filler)
                return connection.recv(4096).partition(b"\r\n")[0]
            except TimeoutError:
                continue
            except OSError:
                return b"closed"
    return b"nothing"


@pytest.mark.parametrize(
    ("start", "filler"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"a" * 16384),
        (b"GET /", b"a" * 16384),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"".join(b"X-%d: y\r\n" % number for number in range(1500))),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: ", b"a" * 16384),
    ],
)
def test_connection_is_closed_when_a_head_has_no_end(port: int, start: bytes, filler: bytes) -> None:
    assert _sent(port, start, filler, most=100) in (b"HTTP/1.1 431 Request Header Fields Too Large", b"closed")


def test_connection_is_closed_when_the_head_is_slow(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    assert _sent(port, b"GET / HTTP/1.1\r\nX-A: ", b"a") == b"HTTP/1.1 408 Request Timeout"


def test_honest_requests_pass(port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get("/", headers={"X-Long": "a" * 20_000}).text == "0"
        assert client.post("/", content=b"a" * 5_000_000).text == "5000000"
        assert client.post("/", content=(b"ab" for _ in range(20_000))).text == "40000"
        assert client.get("/").text == "0"
