"""Stands in for vllm-router: takes turns between its workers, and takes and drops them when told."""

from __future__ import annotations

import itertools
import sys
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORKERS = [given for given in sys.argv if given.startswith("http://")]
TURNS = itertools.count()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, " ".join(WORKERS).encode())

    def do_POST(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        worker = urllib.parse.parse_qs(url.query).get("url", [""])[0]
        if url.path == "/add_worker":
            WORKERS.append(worker)
            self.answer(200, b"")
        elif url.path == "/remove_worker":
            WORKERS[:] = [known for known in WORKERS if known != worker]
            self.answer(200, b"")
        else:
            self.forward(body)

    def forward(self, body: bytes) -> None:
        for _ in range(3):
            known = list(WORKERS)
            if not known:
                break
            asked = urllib.request.Request(known[next(TURNS) % len(known)] + self.path, body)
            try:
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    self.answer(200, answer.read())
                return
            except OSError:
                continue
        self.answer(503, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        return


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
