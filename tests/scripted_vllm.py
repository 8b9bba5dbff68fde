"""A vLLM server without a network: real HTTP on a real port of 127.0.0.1, answers and failures by script.

    with running_vllm() as vllm:
        vllm.always(says("# Invoice"))            # every call from now on
        vllm.next(fails(Failure.BUSY), fails(Failure.CUT))   # the next two calls, before what `always` says
        ...
        vllm.received[-1].body["temperature"]     # what the callers sent
        vllm.aborted                              # calls whose client went away

Its shapes (errors, chunks, finish reasons, metric names) are those of vLLM 0.32, as measured in front of real ones.
Latency is that of continuous batching: a call waits for one of `max_running` places, then for `prefill_seconds`,
and each of its tokens takes `token_seconds * (1 + batch_slowdown * (running calls - 1))`. All are 0 at first.
Alone: `python -m tests.scripted_vllm --port 8000 --token-seconds 0.01`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

LIGHTON = "lightonai/LightOnOCR-2-1B"
_TOKEN = re.compile(r"\s*\S{1,8}|\s+")


class Failure(StrEnum):
    """What can go wrong with a call. No route at all: `unused_url`, or `stop` a server."""

    UNAUTHORIZED = "401"
    UNKNOWN_MODEL = "404"
    IMAGE_REFUSED = "image refused, 400"
    CONTEXT_TOO_LONG = "context too long, 400"
    CUT = "the stream is cut in the middle, without [DONE]"
    HANG = "the stream goes silent in the middle"
    NOT_JSON = "the answer is HTML"
    NOT_JSON_CHUNK = "a chunk of the stream is not JSON"
    EMPTY = "no text, finish_reason stop"
    LENGTH = "cut at max_tokens, finish_reason length"
    REPETITION = "the text repeats itself until max_tokens, or until repetition_detection ends it"
    SHUTTING_DOWN = "500: cannot schedule new futures after shutdown"
    BUSY = "503"
    UNREACHED = "500 of vllm-router: the instance that it chose is dead"
    POISON = "500: the image kills the request"
    ERROR_CHUNK = "an error as a chunk of the stream"


@dataclass(frozen=True, slots=True)
class Reply:
    """What one call gets: `text` (a function of the body, or fixed), or a `failure`.

    `first_token_seconds` is added to the server's prefill; `after_tokens` says how much of the text comes before a
    failure in mid-stream. `logprob` is that of each token, where the caller asked.
    """

    text: str | Callable[[dict[str, Any]], str] = "Total 9.00"
    failure: Failure | None = None
    first_token_seconds: float = 0.0
    after_tokens: int = 2
    logprob: float = -0.1

    def text_for(self, body: dict[str, Any]) -> str:
        """The whole text of this reply to `body`, before any failure and before max_tokens."""
        text = self.text(body) if callable(self.text) else self.text
        return "" if self.failure is Failure.EMPTY else text


def says(text: str | Callable[[dict[str, Any]], str], **how: Any) -> Reply:
    """Answers with `text`."""
    return Reply(text, **how)


def fails(failure: Failure, text: str = "Total 9.00 and some more words", **how: Any) -> Reply:
    """Fails; those that fail in mid-stream say the beginning of `text` before."""
    return Reply(text, failure, **how)


def slow(seconds: float, text: str = "Total 9.00") -> Reply:
    """Answers `text` after a long wait for the first token."""
    return Reply(text, first_token_seconds=seconds)


def repeats(unit: str, *, after: str = "") -> Reply:
    """Says `after`, then `unit` again and again."""
    return Reply(after + unit, Failure.REPETITION)


@dataclass(frozen=True, slots=True)
class Received:
    """One call of /v1/chat/completions as it came in; header names in lower case."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """All text parts of all messages, in order."""
        return [part["text"] for part in self._parts() if part["type"] == "text"]

    @property
    def images(self) -> list[str]:
        """The URLs of all images, in order."""
        return [part["image_url"]["url"] for part in self._parts() if part["type"] == "image_url"]

    def _parts(self) -> Iterator[dict[str, Any]]:
        for message in self.body["messages"]:
            content = message["content"]
            yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


@dataclass
class ScriptedVllm:
    """One running server. Attributes may be changed at any time, from any thread."""

    model: str = LIGHTON
    api_key: str | None = None
    max_model_len: int = 16384
    max_running: int = 256
    prefill_seconds: float = 0.0
    token_seconds: float = 0.0
    batch_slowdown: float = 0.0
    tokens_a_chunk: int = 1
    has_repetition_detection: bool = True
    is_healthy: bool = True
    url: str = ""
    received: list[Received] = field(default_factory=list)
    aborted: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    generated_tokens: int = 0
    running: int = 0
    waiting: int = 0
    most_running: int = 0
    _script: deque[Reply] = field(default_factory=deque)
    _standing: Reply = field(default_factory=Reply)

    def next(self, *replies: Reply) -> None:
        """These calls' replies, one after the other, before what `always` says."""
        self._script.extend(replies)

    def always(self, reply: Reply) -> None:
        """The reply to every call that `next` says nothing of."""
        self._standing = reply

    def forget(self) -> None:
        """Forgets what was received, scripted and counted; what `always` says stays."""
        self.received.clear()
        self._script.clear()
        self.finished.clear()
        self.aborted = self.generated_tokens = self.most_running = 0

    def take_reply(self) -> Reply:
        """The reply of the next call."""
        return self._script.popleft() if self._script else self._standing

    def wait_until(self, is_so: Callable[[], bool], seconds: float = 10) -> None:
        """Waits for something that the server counts. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.005)


@contextmanager
def running_vllm(vllm: ScriptedVllm | None = None, *, port: int = 0, **attributes: Any) -> Iterator[ScriptedVllm]:
    """A server on a free port, in a thread of its own, stopped at the end. `url` ends in /v1, as clients want it."""
    vllm = vllm or ScriptedVllm(**attributes)
    listener = socket.create_server(("127.0.0.1", port))
    vllm.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    config = uvicorn.Config(
        _application(vllm), log_config=None, log_level="critical", timeout_graceful_shutdown=1, lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    vllm.wait_until(lambda: server.started)
    try:
        yield vllm
    finally:
        server.should_exit = server.force_exit = True
        thread.join(timeout=10)
        listener.close()


def unused_url() -> str:
    """A URL where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def _application(vllm: ScriptedVllm) -> Starlette:
    async def chat(request: Request) -> Response:
        return await _Call(vllm, request).answer()

    async def models(request: Request) -> Response:
        if not _is_allowed(vllm, request):
            return _unauthorized()
        card = {"id": vllm.model, "object": "model", "owned_by": "vllm", "max_model_len": vllm.max_model_len}
        return JSONResponse({"object": "list", "data": [card]})

    async def health(_: Request) -> Response:
        return Response(status_code=200 if vllm.is_healthy else 503)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(_metrics(vllm))

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
            Route("/metrics", metrics),
        ]
    )


def _metrics(vllm: ScriptedVllm) -> str:
    label = f'{{engine="0",model_name="{vllm.model}"}}'
    rows = [
        f"vllm:num_requests_running{label} {vllm.running}",
        f"vllm:num_requests_waiting{label} {vllm.waiting}",
        f"vllm:generation_tokens_total{label} {vllm.generated_tokens}",
        f"vllm:kv_cache_usage_perc{label} {vllm.running / vllm.max_running}",
    ]
    for reason, count in vllm.finished.items():
        rows.append(f'vllm:request_success_total{{engine="0",finished_reason="{reason}"}} {count}')
    return "\n".join(rows) + "\n"


def _is_allowed(vllm: ScriptedVllm, request: Request) -> bool:
    return vllm.api_key is None or request.headers.get("authorization") == f"Bearer {vllm.api_key}"


def _unauthorized() -> Response:
    return JSONResponse({"error": "Unauthorized"}, status_code=401)


def _error(status: int, kind: str, message: str, param: str | None = None) -> Response:
    return JSONResponse(
        {"error": {"message": message, "type": kind, "param": param, "code": status}}, status_code=status
    )


class _Gone(Exception):
    """Ends a response in the middle: the server closes the connection without the last chunk."""


class _Call:
    def __init__(self, vllm: ScriptedVllm, request: Request) -> None:
        self.vllm = vllm
        self.request = request
        self.body: dict[str, Any] = {}
        self.reply = Reply()
        self.id = f"chatcmpl-{request.headers.get('x-request-id', 'scripted')}"

    async def answer(self) -> Response:
        self.body = await self.request.json()
        self.vllm.received.append(Received(dict(self.request.headers), self.body))
        self.reply = self.vllm.take_reply()
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        if self.body.get("stream"):
            return StreamingResponse(self._stream(), media_type="text/event-stream")
        return await self._whole()

    def _refusal(self) -> Response | None:
        failure, asked = self.reply.failure, self.body.get("model")
        if failure is Failure.UNAUTHORIZED or not _is_allowed(self.vllm, self.request):
            return _unauthorized()
        if failure is Failure.UNKNOWN_MODEL or asked != self.vllm.model:
            return _error(404, "NotFoundError", f"The model `{asked}` does not exist.", "model")
        length = self.vllm.max_model_len
        refusals = {
            Failure.IMAGE_REFUSED: (400, "BadRequestError", "Failed to load image: cannot identify image file"),
            Failure.CONTEXT_TOO_LONG: (
                400,
                "BadRequestError",
                f"The decoder prompt (length 20000) is longer than the maximum model length of {length}.",
            ),
            Failure.SHUTTING_DOWN: (500, "InternalServerError", "cannot schedule new futures after shutdown"),
            Failure.BUSY: (503, "ServiceUnavailableError", "The server is overloaded."),
            Failure.UNREACHED: (
                500,
                "RouterError",
                "Request failed: error sending request for url (http://127.0.0.1:1/v1/chat/completions)",
            ),
            Failure.POISON: (500, "InternalServerError", "EngineCore encountered an issue."),
        }
        if failure is Failure.NOT_JSON:
            return Response("<html><body>It works!</body></html>", media_type="text/html")
        return _error(*refusals[failure]) if failure in refusals else None

    async def _whole(self) -> Response:
        produced: list[str] = []
        finish = "stop"
        working = asyncio.create_task(self._collect(produced))
        leaving = asyncio.create_task(self._disconnected())
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            return Response(status_code=499)
        finish = working.result()
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "".join(produced)},
            "logprobs": self._logprobs(produced),
            "finish_reason": finish,
            "stop_reason": "repetition_detected" if finish == "repetition" else None,
        }
        return JSONResponse({**self._envelope("chat.completion"), "choices": [choice], "usage": _usage(len(produced))})

    async def _collect(self, produced: list[str]) -> str:
        finish = "stop"
        async for tokens, finish in self._tokens():  # noqa: B007  the last one counts
            produced.extend(tokens)
        return finish

    async def _disconnected(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    async def _stream(self) -> AsyncIterator[str]:
        yield self._chunk({"role": "assistant", "content": ""}, None, [])
        count = 0
        async for tokens, finish in self._tokens():
            count += len(tokens)
            if self.reply.failure is Failure.NOT_JSON_CHUNK and count > self.reply.after_tokens:
                yield "data: {not json\n\n"
            if self.reply.failure is Failure.ERROR_CHUNK and count > self.reply.after_tokens:
                yield f"data: {json.dumps({'error': {'message': 'EngineCore died', 'code': 500}})}\n\n"
                return
            yield self._chunk({"content": "".join(tokens)}, finish or None, tokens)
        if (self.body.get("stream_options") or {}).get("include_usage"):
            whole = {**self._envelope("chat.completion.chunk"), "choices": [], "usage": _usage(count)}
            yield f"data: {json.dumps(whole)}\n\n"
        yield "data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, str], finish: str | None, tokens: list[str]) -> str:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if tokens:
            choice["logprobs"] = self._logprobs(tokens)
        if finish is not None:
            choice["stop_reason"] = "repetition_detected" if finish == "repetition" else None
        chunk = {**self._envelope("chat.completion.chunk"), "choices": [choice]}
        return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"  # unescaped, as vLLM writes it

    def _envelope(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.vllm.model}

    def _logprobs(self, tokens: list[str]) -> dict[str, Any] | None:
        if not self.body.get("logprobs"):
            return None
        content: list[dict[str, Any]] = [
            {"token": token, "logprob": self.reply.logprob, "bytes": None, "top_logprobs": []} for token in tokens
        ]
        return {"content": content}

    async def _tokens(self) -> AsyncIterator[tuple[list[str], str]]:
        """Tokens as they are generated, in chunks, with the finish reason at the last ('' before)."""
        tokens, finish = self._planned()
        size = max(1, self.vllm.tokens_a_chunk)
        async with self._place():
            await asyncio.sleep(self.vllm.prefill_seconds + self.reply.first_token_seconds)
            said = 0
            for start in range(0, max(len(tokens), 1), size):
                await self._break_off(said)
                chunk = tokens[start : start + size]
                await asyncio.sleep(len(chunk) * self._seconds_a_token())
                said += len(chunk)
                self.vllm.generated_tokens += len(chunk)
                yield chunk, finish if start + size >= len(tokens) else ""
            await self._break_off(said)
        self.vllm.finished[finish] += 1

    async def _break_off(self, said: int) -> None:
        if said < self.reply.after_tokens:
            return
        if self.reply.failure is Failure.CUT:
            raise _Gone
        if self.reply.failure is Failure.HANG:
            await asyncio.sleep(3600)

    def _seconds_a_token(self) -> float:
        return self.vllm.token_seconds * (1 + self.vllm.batch_slowdown * (self.vllm.running - 1))

    def _planned(self) -> tuple[list[str], str]:
        limit = int(self.body.get("max_tokens") or self.body.get("max_completion_tokens") or 4096)
        tokens = _TOKEN.findall(self.reply.text_for(self.body))
        finish = "stop"
        if self.reply.failure is Failure.LENGTH:
            limit, finish = min(limit, len(tokens)), "length"
        if self.reply.failure is Failure.REPETITION:
            tokens, finish = self._looping(tokens, limit)
        if len(tokens) > limit:
            return tokens[:limit], "length"
        return tokens, finish

    def _looping(self, tokens: list[str], limit: int) -> tuple[list[str], str]:
        detection = self.body.get("repetition_detection") or {}
        count = detection.get("min_count")
        size = len(tokens)
        if self.vllm.has_repetition_detection and count and size <= detection.get("max_pattern_size", 0):
            return tokens * count, "repetition"
        return (tokens * math.ceil(limit / max(size, 1)))[:limit], "length"

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """One of the places of the batch; a call that ends within it by its client's leaving is counted as aborted."""
        self.vllm.waiting += 1
        try:
            while self.vllm.running >= self.vllm.max_running:
                await asyncio.sleep(0.001)
        finally:
            self.vllm.waiting -= 1
        self.vllm.running += 1
        self.vllm.most_running = max(self.vllm.most_running, self.vllm.running)
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            self.vllm.aborted += 1
            raise
        finally:
            self.vllm.running -= 1


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 1000, "completion_tokens": tokens, "total_tokens": 1000 + tokens}


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", default=LIGHTON)
    parser.add_argument("--api-key")
    parser.add_argument(
        "--text", default="# Invoice 4711\n\n| Item | Price |\n|---|---|\n| Paper | 9.00 |\n\nTotal 9.00"
    )
    parser.add_argument("--prefill-seconds", type=float, default=0.0)
    parser.add_argument("--token-seconds", type=float, default=0.0)
    parser.add_argument("--batch-slowdown", type=float, default=0.0)
    given = parser.parse_args()
    vllm = replace(
        ScriptedVllm(given.model, given.api_key),
        prefill_seconds=given.prefill_seconds,
        token_seconds=given.token_seconds,
        batch_slowdown=given.batch_slowdown,
    )
    vllm.always(says(given.text))
    with running_vllm(vllm, port=given.port):
        print(vllm.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    _main()
