"""One server's HTTP: its models, its health, and answers as they stream in.

A call that is cancelled closes its connection, upon which vLLM stops generating within a tenth of a second. Nothing
is tried again here: whoever asks for a page decides that, once (portal/jobs/execution.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx

from portal.engine.base import Call
from portal.engine.loops import LoopDetector, without_repeats
from portal.engine.vllm import failures
from portal.engine.vllm.options import ServerOptions
from portal.engine.vllm.transport import AiohttpTransport

Result = TypeVar("Result")

_CHAT = "/chat/completions"
_CONNECT_SECONDS = 5.0
_SHORT_SECONDS = 10.0
_MAX_CHARACTERS = 1_000_000
_WORDS_BYTES = 4096
_MAX_LINE_BYTES = 4 * 2**20
_EARLY_CHUNKS = 2  # the one that only names the role may come long before the first with text


@dataclass
class Answer:
    """A whole answer. `marks` are (position in the text, logarithm of the probability) of each token, where asked.

    `truncated` says why the text is not whole: "repetition" (the repeats are left out) or "length".
    """

    text: str = ""
    truncated: str | None = None
    marks: list[tuple[int, float]] = field(default_factory=list)


class ChatClient:
    """Connections to one server, kept alive. `name` is what people are told of it. Any event loop may call it."""

    def __init__(self, name: str, options: ServerOptions) -> None:
        self.name = name
        self.model = options.model
        self._options = options
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def model_card(self) -> dict[str, Any]:
        """What the server says of the model. Raises EngineError when it is away, refuses, or does not serve it."""
        answer = await self._get("/models")
        try:
            cards = {card["id"]: card for card in answer.json()["data"]}
        except (ValueError, KeyError, TypeError):
            raise failures.not_understood(self.name) from None
        if self.model not in cards:
            raise failures.unknown_model(self.name, self.model)
        return dict(cards[self.model])

    async def ask(self, body: dict[str, Any], call: Call) -> Answer:
        """Sends the body of a streamed request and gives the whole answer. Raises EngineError."""
        answer, detector, finish = Answer(), LoopDetector(), ""
        async with aclosing(self._chunks(body, call)) as chunks:
            async for chunk in chunks:
                piece, finish = _taken(answer, chunk, finish)
                loop = detector.feed(piece) if piece else None
                if loop is not None:
                    answer.text, answer.truncated = answer.text[: loop.cut_at], "repetition"
                    return answer
                if len(answer.text) > _MAX_CHARACTERS:
                    raise failures.not_understood(self.name)
        return self._ended(answer, finish)

    @asynccontextmanager
    async def posting(
        self, content: AsyncIterable[bytes], length_bytes: int, call: Call, *, head_seconds: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """The answer (200, its body not read) to a body that the caller made; aborted when the block ends.

        `head_seconds` bounds the wait for it. Raises EngineError, also for what fails while the block reads it.
        """
        headers = {**self._headers(call), "Content-Type": "application/json", "Content-Length": str(length_bytes)}
        client = await self._client()
        request = client.build_request("POST", self._url(_CHAT), content=content, headers=headers)
        with self._translated():
            answer = await self._within(client.send(request, stream=True), head_seconds)
            try:
                await self._require_success(answer)
                yield answer
            finally:
                await answer.aclose()

    async def pieces(self, answer: httpx.Response, *, is_begun: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """The answer's body as it comes; no piece may be late, but before `is_begun` more time is given.

        Raises EngineError.
        """
        pieces = answer.aiter_bytes()
        while True:
            seconds = self._options.silence_seconds if is_begun() else self._options.first_token_seconds
            with self._translated():
                piece = await self._within(anext(pieces, None), seconds)
            if piece is None:
                return
            yield piece

    @property
    def first_token_seconds(self) -> float:
        """How long the first piece of an answer may take."""
        return self._options.first_token_seconds

    async def close(self) -> None:
        """Closes the connections; calls under way fail. Closing twice is harmless."""
        http, self._http = self._http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    def _ended(self, answer: Answer, finish: str) -> Answer:
        if not finish:
            raise failures.cut(self.name)
        if finish == "repetition":
            answer.text, answer.truncated = without_repeats(answer.text), "repetition"
        elif finish == "length":
            answer.truncated = "length"
        return answer

    async def _get(self, path: str) -> httpx.Response:
        try:
            async with asyncio.timeout(_SHORT_SECONDS):
                answer = await (await self._client()).get(self._url(path), headers=self._headers(Call()))
        except (httpx.TransportError, TimeoutError):
            raise failures.away(self.name) from None
        if answer.status_code != 200:
            raise failures.refused(self.name, self.model, answer.status_code, answer.text[:_WORDS_BYTES])
        return answer

    async def _chunks(self, body: dict[str, Any], call: Call) -> AsyncGenerator[dict[str, Any], None]:
        """The chunks of the stream, up to [DONE]; without that it was cut."""
        request = (await self._client()).build_request("POST", self._url(_CHAT), json=body)
        request.headers.update(self._headers(call))
        async with aclosing(self._lines(request)) as lines:
            async for line in lines:
                if not line.startswith("data:"):
                    self._refuse_foreign(line)
                    continue
                data = line[5:].strip()
                if data == "[DONE]":
                    return
                yield self._decoded(data)
        raise failures.cut(self.name)

    async def _lines(self, request: httpx.Request) -> AsyncGenerator[str, None]:
        """Lines of the answer's body, none of which may be late."""
        early, answer = _EARLY_CHUNKS, None
        try:
            with self._translated():
                client = await self._client()
                answer = await self._within(client.send(request, stream=True), self._seconds(is_first=True))
                await self._require_success(answer)
                lines = self._split(answer.aiter_bytes())
                while (line := await self._within(anext(lines, None), self._seconds(is_first=early > 0))) is not None:
                    early -= line.startswith("data:")
                    yield line
        finally:
            if answer is not None:
                await answer.aclose()

    async def _split(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
        """Lines as SSE has them. A JSON text may hold U+2028 and others at which `str.splitlines` would cut it."""
        rest = b""
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace").removesuffix("\r")
            if len(rest) > _MAX_LINE_BYTES:
                raise failures.not_understood(self.name)
        if rest:
            yield rest.decode(errors="replace")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise failures.away(self.name) from None
        except (httpx.TransportError, httpx.StreamError):
            raise failures.cut(self.name) from None

    async def _require_success(self, answer: httpx.Response) -> None:
        if answer.status_code != 200:
            words = (await self._within(answer.aread(), self._seconds(is_first=False)))[:_WORDS_BYTES]
            raise failures.refused(self.name, self.model, answer.status_code, words.decode(errors="replace"))

    def _seconds(self, *, is_first: bool) -> float:
        return self._options.first_token_seconds if is_first else self._options.silence_seconds

    async def _within(self, waiting: Awaitable[Result], seconds: float | None) -> Result:
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            raise failures.silent(self.name, seconds or 0) from None

    def _decoded(self, data: str) -> dict[str, Any]:
        try:
            chunk = json.loads(data)
        except ValueError:
            raise failures.not_understood(self.name) from None
        if not isinstance(chunk, dict):
            raise failures.not_understood(self.name)
        if "error" in chunk:
            raise failures.cut(self.name)
        return chunk

    def _refuse_foreign(self, line: str) -> None:
        """Comments, event names and empty lines are SSE; anything else is an answer of another kind."""
        if line and not line.startswith((":", "event:", "id:", "retry:")):
            raise failures.not_understood(self.name)

    def _url(self, path: str) -> str:
        return self._options.url.rstrip("/") + path

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {"X-Request-Id": call.request_id} if call.request_id else {}
        key = self._options.api_key
        return headers if key is None else {**headers, "Authorization": f"Bearer {key.get_secret_value()}"}

    async def _client(self) -> httpx.AsyncClient:
        """The connections of this event loop: those of one that has ended cannot be used in another."""
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            ended, self._loop = self._http, loop
            transport = AiohttpTransport(connect_seconds=_CONNECT_SECONDS)
            self._http = httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)  # noqa: S113  see _within
            if ended is not None:
                await ended.aclose()
        return self._http


def _taken(answer: Answer, chunk: dict[str, Any], finish: str) -> tuple[str, str]:
    """Adds a chunk to the answer; its piece of text, and the finish reason so far."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "", finish  # the last chunk, of usage, has none
    choice = choices[0]
    delta = choice.get("delta")
    piece = delta.get("content") if isinstance(delta, dict) else None
    piece = piece if isinstance(piece, str) else ""
    answer.marks.extend((len(answer.text), logprob) for logprob in _logprobs(choice))
    answer.text += piece
    reason = choice.get("finish_reason")
    return piece, reason if isinstance(reason, str) else finish


def _logprobs(choice: dict[str, Any]) -> list[float]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return []
    found = [token.get("logprob") for token in content if isinstance(token, dict)]
    return [float(logprob) for logprob in found if isinstance(logprob, int | float)]
