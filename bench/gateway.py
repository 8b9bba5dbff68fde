"""What the OpenAI door adds to a call: time at one connection, requests a second at 16, memory over many.

Run by `python -m bench gateway`. Behind it stands a stub that answers 20 ms after a body has come; each request carries
an image of 200 kB. The portal is a real process with key check, quota and ledger, on SQLite and on Postgres; LiteLLM's
proxy stands beside it where it is installed (`--litellm`: its Python). `--requests`, `--memory` change the size.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import random
import socket
import struct
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from bench.admission import _postgres
from tests.running_portal import RunningPortal, start_portal, stop_portal

MODEL = "lightonai/LightOnOCR-2-1B"
IMAGE_BYTES = 200_000
STUB_SECONDS = 0.02
AT_ONCE = 16
AIM_ADDED_MS, AIM_PER_SECOND = 6.0, 200.0
_UNLIMITED = ("pages-per-day", "pages-per-month", "pages-in-flight", "requests-per-minute")
_WARM_UP = 50
_CHAT = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Total 9.00"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4},
    }
).encode()
_MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 16384}]}).encode()
_PROBED = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


@dataclass(frozen=True)
class Target:
    """Where requests go: host and port, path, key."""

    port: int
    path: str = "/v1/chat/completions"
    key: str = "none"

    def request(self) -> bytes:
        """The whole request."""
        url = f"data:image/png;base64,{base64.b64encode(image()).decode()}"
        content = [{"type": "image_url", "image_url": {"url": url}}]
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": content}]}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.key}\r\n"
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@dataclass(frozen=True)
class Timing:
    """Milliseconds of each request, sorted, and how many ended in a second."""

    milliseconds: list[float]
    per_second: float

    def percentile(self, share: float) -> float:
        """The time within which that share of the requests was answered."""
        return self.milliseconds[min(len(self.milliseconds) - 1, int(share * len(self.milliseconds)))]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 0 when every request was answered."""
    parser = argparse.ArgumentParser(prog="bench gateway", description=__doc__)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--memory", type=int, default=2000, help="requests over which memory is looked at; 0 for none")
    parser.add_argument("--database", default="", help="address of an empty Postgres, else one is started")
    parser.add_argument("--litellm", default="", help="the Python of an environment with LiteLLM's proxy")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as folder, _stub() as port:
        print(
            f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {given.requests} requests, {IMAGE_BYTES} bytes\n"
        )
        print(f"{'':<22}{'p50 ms':>8}{'p99 ms':>8}{'added p50':>11}{'added p99':>11}{'a second at 16':>16}")
        direct = _measured("direct", Target(port), given.requests, None)
        if given.only != "postgres":
            with _portal(Path(folder) / "sqlite", port) as (portal, target):
                _measured("portal, SQLite", target, given.requests, direct)
                _memory(portal, target, given.memory)
        if given.only != "sqlite":
            with _postgres(given.database) as url, _portal(Path(folder) / "pg", port, url) as (portal, target):
                _measured("portal, Postgres", target, given.requests, direct)
        if given.litellm:
            with _litellm(given.litellm, Path(folder), port) as target:
                _measured("LiteLLM's proxy", target, given.requests, direct)
    print(f"\nAim: added p50 ≤ {AIM_ADDED_MS:g} ms, p99 ≤ 3 × p50, at 16 connections ≥ {AIM_PER_SECOND:g} a second.")
    return 0


def image() -> bytes:
    """A PNG of 200 kB that is whole to whoever looks at header and end; the stub decodes nothing."""
    noise = random.Random(7).randbytes(IMAGE_BYTES - 57)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 1240, 1754, 8, 2, 0, 0, 0)), (b"IDAT", noise), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _measured(title: str, target: Target, requests: int, direct: Timing | None) -> Timing:
    asyncio.run(_timed(target, _WARM_UP, 1))
    alone = asyncio.run(_timed(target, requests, 1))
    crowd = asyncio.run(_timed(target, requests * 2, AT_ONCE))
    p50, p99 = alone.percentile(0.5), alone.percentile(0.99)
    added = [f"{p50 - direct.percentile(0.5):.1f}", f"{p99 - direct.percentile(0.99):.1f}"] if direct else ["-", "-"]
    print(f"{title:<22}{p50:>8.1f}{p99:>8.1f}{added[0]:>11}{added[1]:>11}{crowd.per_second:>16.0f}", flush=True)
    return alone


def _memory(portal: RunningPortal, target: Target, requests: int) -> None:
    if not requests:
        return
    process, seen = psutil.Process(portal.process.pid), []
    for _ in range(5):
        asyncio.run(_timed(target, max(1, requests // 5), AT_ONCE))
        seen.append(process.memory_info().rss / 2**20)
    print(
        f"{'':<4}memory after each fifth of {requests} requests: {', '.join(f'{mb:.0f}' for mb in seen)} MB", flush=True
    )


async def _timed(target: Target, requests: int, at_once: int) -> Timing:
    message, left, spent = target.request(), [requests], []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=2**20)
        while left[0] > 0:
            left[0] -= 1
            began = time.perf_counter()
            writer.write(message)
            await _answered(reader)
            spent.append((time.perf_counter() - began) * 1000)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(at_once)))
    return Timing(sorted(spent), requests / (time.perf_counter() - began))


async def _answered(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise RuntimeError(f"refused: {head[:200]!r} {(await reader.read(2000))!r}")
    length = next((line for line in head.split(b"\r\n") if line.startswith(b"content-length:")), b"")
    if length:
        await reader.readexactly(int(length.partition(b":")[2]))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()


@contextmanager
def _stub() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        port: int = listener.getsockname()[1]
        process = multiprocessing.get_context("spawn").Process(target=_serve_stub, args=(listener,), daemon=True)
        process.start()
        try:
            yield port
        finally:
            process.terminate()
            process.join()


def _serve_stub(listener: socket.socket) -> None:
    asyncio.run(_stub_server(listener))


async def _stub_server(listener: socket.socket) -> None:
    server = await asyncio.start_server(_stub_connection, sock=listener, limit=2**21)
    await server.serve_forever()


async def _stub_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
            body = await reader.readexactly(int(length.partition(b":")[2]))
            if not head.startswith(b"POST"):
                writer.write(_response(_MODELS))
                continue
            await asyncio.sleep(STUB_SECONDS)
            is_stream = b'"stream":true' in body[-2000:]  # only the portal's own probe asks for one
            writer.write(_response(_PROBED, "text/event-stream") if is_stream else _response(_CHAT))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _response(body: bytes, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def _portal(folder: Path, port: int, database: str | None = None) -> Iterator[tuple[RunningPortal, Target]]:
    portal = start_portal(
        folder,
        PORTAL_VLLM_URL=f"http://127.0.0.1:{port}/v1",
        PORTAL_VLLM_MODEL=MODEL,
        PORTAL_EMBEDDED="off",
        PORTAL_LOG_LEVEL="warning",
        PORTAL_DATABASE_URL=database or "",
    )
    try:
        portal.command(
            "admin", "create-tenant", "--name", "bench", "--email", "b@b.example", "--password", "bench-bench"
        )
        unlimited = [part for name in _UNLIMITED for part in (f"--{name}", "none")]
        portal.command("admin", "set-quota", "--tenant", "bench", *unlimited)
        key = portal.command("admin", "create-key", "--tenant", "bench", "--scopes", "chat").strip()
        _await_engine(portal)
        yield portal, Target(int(portal.url.rpartition(":")[2]), key=key)
    finally:
        stop_portal(portal)


def _await_engine(portal: RunningPortal) -> None:
    for _ in range(100):
        if httpx.get(f"{portal.url}/readyz").json()["parts"]["engine vllm"] == "ok":
            return
        time.sleep(0.2)
    raise RuntimeError("the portal did not reach the stub")


@contextmanager
def _litellm(python: str, folder: Path, port: int) -> Iterator[Target]:
    """LiteLLM's proxy with a master key and neither database nor budget: less work than the portal's."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own = probe.getsockname()[1]
    config = folder / "litellm.json"  # JSON is YAML
    stub = {"model": f"hosted_vllm/{MODEL}", "api_base": f"http://127.0.0.1:{port}/v1", "api_key": "none"}
    models = [{"model_name": MODEL, "litellm_params": stub}]
    config.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": "sk-bench"}}))
    command = [str(Path(python).parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(own)]
    with (folder / "litellm.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await_ready(f"http://127.0.0.1:{own}/health/liveliness")
        yield Target(own, key="sk-bench")
    finally:
        process.terminate()
        process.wait()


def _await_ready(url: str) -> None:
    for _ in range(240):
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise RuntimeError("LiteLLM's proxy did not start")
