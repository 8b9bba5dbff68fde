"""The call to vLLM for one order: opened, and its answer held until there is text in it or it is known to have none.

Until then a failure can still be told by a status, and be tried again where that may help: nothing was delivered. This
is the door's only place that tries again; the client and the router do not.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import httpx

from portal.door.events import Event, EventStream, has_text
from portal.door.order import Letter, Order
from portal.engine.base import Call
from portal.engine.vllm import failures
from portal.engine.vllm.client import ChatClient
from portal.engine.vllm.failures import AWAY, INSTANCE_LOST
from portal.errors import EngineError

_CALLS = {
    AWAY: 3,
    "engine_stream_cut": 2,
    INSTANCE_LOST: 2,
}  # how often it is called in all; one that was cut may have killed the engine
_BACKOFF_SECONDS = (0.05, 0.2)
# A router goes on choosing an instance that died for some seconds. Calls that fail at once have not even reached it, so
# they did not kill it; one that took longer might have.
_LOST_CALLS = 16
_LOST_BACKOFF_SECONDS = (0.4, 0.8)
_AT_ONCE_SECONDS = 0.25
_MAX_ANSWER_BYTES = 16 * 2**20


@dataclass
class Answer:
    """An answer under way. `first` is what came up to the first text, `rest` what comes then.

    `has_text` says whether there is text in `first`; a whole answer is all in `first`. `close` aborts it.
    """

    first: list[bytes]
    has_text: bool
    rest: AsyncGenerator[bytes, None] | None = None
    calls: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def close(self) -> None:
        """Ends the call; vLLM stops generating. Twice is harmless."""
        if self.rest is not None:
            await self.rest.aclose()
        await self.calls.aclose()


async def ask(order: Order, letter: Letter, call: Call) -> Answer:
    """The answer once something of it can be passed on. Raises EngineError."""
    calls = lost = 0
    while True:
        calls += 1
        began = time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                opened = await _opened(order, letter, call, stack)
                opened.calls = stack.pop_all()
                return opened
        except EngineError as failure:
            is_unreached = failure.code == INSTANCE_LOST and time.monotonic() - began < _AT_ONCE_SECONDS
            lost += is_unreached
            calls -= is_unreached
            if calls >= _CALLS.get(failure.code, 1) or lost > _LOST_CALLS:
                raise
        await asyncio.sleep(random.uniform(*(_LOST_BACKOFF_SECONDS if is_unreached else _BACKOFF_SECONDS)))  # noqa: S311


async def _opened(order: Order, letter: Letter, call: Call, stack: AsyncExitStack) -> Answer:
    client = order.vllm.client
    head_seconds = client.first_token_seconds if order.is_stream else None
    posting = client.posting(_content(letter), letter.length_bytes, call, head_seconds=head_seconds)
    reply = await stack.enter_async_context(posting)
    if not order.is_stream:
        return await _whole(client, reply)
    events = _events(client, reply)
    first: list[bytes] = []
    async for event in events:
        first.append(event.raw)
        if event.is_end or event.has_text:
            return Answer(first, not event.is_end, None if event.is_end else _raw(events))
    raise failures.cut(client.name)


async def _whole(client: ChatClient, reply: httpx.Response) -> Answer:
    body = bytearray()
    async with aclosing(client.pieces(reply, is_begun=lambda: True)) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > _MAX_ANSWER_BYTES:
                raise failures.not_understood(client.name)
    try:
        value = json.loads(body)
        if not isinstance(value["choices"], list):
            raise failures.not_understood(client.name)
        return Answer([bytes(body)], has_text(value, "message"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise failures.not_understood(client.name) from None


async def _events(client: ChatClient, reply: httpx.Response) -> AsyncGenerator[Event, None]:
    """Events up to the end mark. Raises EngineError when they are none, say an error, or end without the mark."""
    stream, count = EventStream(), 0
    if not reply.headers.get("content-type", "").startswith("text/event-stream"):
        raise failures.not_understood(client.name)
    async with aclosing(client.pieces(reply, is_begun=lambda: count > 1)) as pieces:
        async for piece in pieces:
            for event in _cut_out(client, stream, piece):
                count += 1
                yield event
                if event.is_end:
                    return
    raise failures.cut(client.name)


def _cut_out(client: ChatClient, stream: EventStream, piece: bytes) -> Iterator[Event]:
    """The events of a piece one by one: those before a fault are as good as if they had come alone."""
    try:
        for event in stream.feed(piece):
            if event.is_error:
                raise failures.cut(client.name)
            event.has_text  # noqa: B018  no JSON is a fault here, not where the event is passed on
            yield event
    except (ValueError, RecursionError):
        raise failures.not_understood(client.name) from None


async def _raw(events: AsyncGenerator[Event, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            yield event.raw


async def _content(letter: Letter) -> AsyncIterator[bytes]:
    for piece in letter.pieces():
        yield piece
