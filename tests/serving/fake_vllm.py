"""Stands in for `vllm serve`: reads the store's weights, answers as an instance does, and fails as a file tells it to.

`behaviour-INSTANCE` in the checkpoint's folder: `dies` (at the start), `hangs` (answers nothing more), `stuck` (has
work and makes no progress), `loads` (has attached, and is not ready as long as that stands there). A page takes
`page-seconds`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from portal.serving.shared_weights import client


def option(name: str) -> str:
    return next(given.partition("=")[2] for given in sys.argv if given.startswith(f"--{name}="))


CHECKPOINT = Path(sys.argv[2])
LOADING = json.loads(option("model-loader-extra-config"))
LOCK = threading.Lock()
COUNTS = {"running": 0, "finished": 0}


def behaviour() -> str:
    path = CHECKPOINT / f"behaviour-{LOADING['name']}"
    return path.read_text() if path.exists() else ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        while behaviour() == "hangs":
            time.sleep(0.05)
        if self.path == "/metrics":
            running = COUNTS["running"] + (behaviour() == "stuck")
            self.answer(
                f'vllm:num_requests_running{{engine="0"}} {running}\nvllm:num_requests_waiting{{engine="0"}} 0.0\n'
                f'vllm:generation_tokens_total{{engine="0"}} {COUNTS["finished"] * 10}\n'
                f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {COUNTS["finished"]}\n'
            )
        else:
            self.answer("")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with LOCK:
            COUNTS["running"] += 1
        time.sleep(float((CHECKPOINT / "page-seconds").read_text()))
        with LOCK:
            COUNTS["running"] -= 1
            COUNTS["finished"] += 1
        self.answer(json.dumps({"choices": [{"message": {"content": LOADING["name"]}}]}))

    def answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        return


def main() -> None:
    if behaviour() == "dies":
        print("SharedWeightsError: this instance was told to die")
        sys.exit(1)
    attachment = client.attach(Path(LOADING["socket"]), name=LOADING["name"], wait_seconds=LOADING["wait_seconds"])
    while behaviour() == "loads":
        time.sleep(0.05)
    engine = os.fork()  # as vLLM's engine: it outlives the leader when only that is killed
    if engine == 0:
        time.sleep(600)
    server = ThreadingHTTPServer(("127.0.0.1", int(option("port"))), Handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    os.kill(engine, signal.SIGKILL)
    attachment.lease.close()


if __name__ == "__main__":
    main()
