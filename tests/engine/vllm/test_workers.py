"""A router's workers as vllm-router 0.1.17 lists them; whatever else answers is no router."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from portal.engine.vllm.options import ServerOptions
from portal.engine.vllm.workers import Worker, workers_behind

# As the real one answered, with one of its two workers killed.
LISTED = json.dumps(
    {
        "workers": [
            {
                "url": url,
                "model_id": "unknown",
                "worker_type": "regular",
                "is_healthy": is_healthy,
                "load": load,
                "connection_mode": "Http",
                "priority": 50,
                "cost": 1.0,
            }
            for url, is_healthy, load in (
                ("http://127.0.0.1:28812", False, 0),
                ("http://user:hunter2@10.0.0.5:28811", True, 3),
            )
        ],
        "total": 2,
        "stats": {"prefill_count": 0, "decode_count": 0, "regular_count": 2},
    }
).encode()


@contextmanager
def answering(status: int, body: bytes, asked: list[tuple[str, str | None]]) -> Iterator[ServerOptions]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield ServerOptions(f"http://127.0.0.1:{server.server_port}/v1", "ocr", SecretStr("key"))
        server.shutdown()
        thread.join()


def test_workers_are_listed_with_host_and_port_alone() -> None:
    asked: list[tuple[str, str | None]] = []
    with answering(200, LISTED, asked) as server:
        found = workers_behind(server, seconds=5)
    assert found == (Worker("127.0.0.1:28812", False, 0), Worker("10.0.0.5:28811", True, 3))
    assert asked == [("/workers", "Bearer key")]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"detail":"Not Found"}'),
        (200, b"<html>"),
        (200, b'{"workers": [{"url": 5}]}'),
        (200, b'{"workers": [{"url": "http://[", "is_healthy": true}]}'),
        (200, b"[]"),
        (302, b""),
    ],
)
def test_there_is_no_router_when_the_answer_is_another(status: int, body: bytes) -> None:
    with answering(status, body, []) as server:
        assert workers_behind(server, seconds=5) is None


def test_there_is_no_router_when_nobody_answers() -> None:
    assert workers_behind(ServerOptions("http://127.0.0.1:9/v1", "ocr"), seconds=1) is None
