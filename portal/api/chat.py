"""POST /v1/chat/completions: OpenAI's chat API for one page image, passed on to vLLM.

A refusal before the first text has its own status; one after it is an event of the stream, which then ends without
`[DONE]`. A client that goes away has the call aborted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from portal.api import contract
from portal.api.access import Chatter
from portal.api.chat_request import ChatCompletion, ChatRequest, checked_request
from portal.api.json_body import JsonBody, fill
from portal.api.problems import ProblemRoute, refusal_body, with_openai_error
from portal.domain import Principal
from portal.door.failures import too_slow
from portal.door.image_check import checked
from portal.door.offer import chosen
from portal.door.order import Order, order_of
from portal.door.passage import Delivery
from portal.door.spool import MAX_IMAGE_BYTES, SpooledImage
from portal.errors import PortalError
from portal.http.given import PortalServices
from portal.http.problems import encodable, log_refusal, request_id, standing_headers
from portal.services import Services

_SHORT_BYTES = 8192

routes = APIRouter(prefix="/v1/chat/completions", tags=["Chat"], route_class=ProblemRoute)


@routes.post(
    "",
    summary="Read one page image (OpenAI-compatible)",
    response_model=ChatCompletion,
    responses=contract.chat(),
    openapi_extra=contract.json_request(ChatRequest),
)
async def complete_chat(request: Request, services: PortalServices, principal: Chatter) -> StreamingResponse:
    """Takes the request of OpenAI's chat API, passes it on to an engine on vLLM and answers as that does.

    One image as a base64 `data:` URL (PNG, JPEG, WebP); remote URLs are never fetched. Text parts are the model's own
    prompts, which `/v1/models` lists, unless the key has the scope `prompt`; a model that takes no text is sent none.
    Without text the model's usual prompt is asked. Charged is one page when text was delivered, nothing else.
    """
    body = JsonBody(lambda: services.door.spool.image(limit_bytes))
    limit_bytes = min(services.settings.intake.max_file_bytes, MAX_IMAGE_BYTES)
    try:
        await fill(body, request, max_file_bytes=limit_bytes)
        order = await _checked(services, principal, body)
        delivering = services.door.deliver(principal, order, request_id=request_id(request.scope))
        return DeliveryResponse(request, await _unless_left(request, delivering))
    finally:
        if body.file is not None:
            body.file.discard()


class DeliveryResponse(StreamingResponse):
    """Sends a delivery as it comes, and ends it: when it is over, when the client goes, when its time is up."""

    def __init__(self, request: Request, delivery: Delivery) -> None:
        headers = standing_headers(delivery.standing)
        if delivery.is_stream:
            headers |= {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would hold chunks back
        else:
            headers["Content-Length"] = str(delivery.length_bytes)
        media_type = "text/event-stream" if delivery.is_stream else "application/json"
        super().__init__(delivery.pieces(), headers=headers, media_type=media_type)
        self._request, self._delivery = request, delivery

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI response."""
        sending = asyncio.create_task(self._sent(send))
        leaving = asyncio.create_task(_left(self._request))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await _over(sending, leaving)
            await self._delivery.end()

    async def _sent(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with asyncio.timeout_at(self._delivery.until):
                async for piece in self.body_iterator:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            await send({"type": "http.response.body", "body": self._told(too_slow()), "more_body": True})
        except PortalError as error:
            await send({"type": "http.response.body", "body": self._told(error), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _told(self, error: PortalError) -> bytes:
        """An error in the middle of a stream, as an event."""
        log_refusal(self._request.scope, error)
        problem = encodable(with_openai_error(refusal_body(self._request, error)))
        return b"data: " + json.dumps(problem).encode() + b"\n\n"


async def _checked(services: Services, principal: Principal, body: JsonBody[SpooledImage]) -> Order:
    """The order; looked at in a thread where that may take long."""
    is_short = body.kept_bytes <= _SHORT_BYTES and (body.file is None or body.file.is_in_memory)
    if is_short:
        return _order(services, principal, body)
    return await run_in_threadpool(_order, services, principal, body)


def _order(services: Services, principal: Principal, body: JsonBody[SpooledImage]) -> Order:
    """What is asked, checked. Raises PortalError."""
    asked = checked_request(body)
    engine, vllm = chosen(services.jobs.engines, asked.model)
    image = checked(_file(body), max_pixels=vllm.options.profile.image.max_taken_pixels)
    return order_of(asked.asked(), image, engine, vllm, principal)


def _file(body: JsonBody[SpooledImage]) -> SpooledImage:
    assert body.file is not None  # noqa: S101 - `checked_request` has found its placeholder
    return body.file


async def _unless_left(request: Request, delivering: Coroutine[Any, Any, Delivery]) -> Delivery:
    """The delivery, which is cancelled when the client goes away: ClientDisconnect is raised then."""
    working = asyncio.create_task(delivering)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    except BaseException:
        await _over(leaving)
        await _dropped(working)
        raise
    await _over(leaving)
    if not working.done():
        await _dropped(working)
        raise ClientDisconnect
    return working.result()


async def _dropped(working: asyncio.Task[Delivery]) -> None:
    """Ends a delivery that nobody takes, whether it is still on its way or there already."""
    await _over(working)
    if not working.cancelled() and working.exception() is None:
        await working.result().end()


async def _over(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
