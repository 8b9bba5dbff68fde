"""A place in the waiting room for a request that holds a connection; past it, when trying again makes sense."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portal.engine.base import Engine
from portal.engine.vllm.failures import away
from portal.errors import EngineError
from portal.jobs import pace
from portal.jobs.context import Engines, JobContext

_RETRY_SECONDS = (5, 15)  # an engine that is away is looked for every two seconds; not everybody comes back at once


def engine_to_wait_for(engines: Engines, name: str) -> Engine:
    """The engine of that name. Raises EngineError (engine_unavailable) when it is away: nobody waits for that.

    An embedded one that is only starting is waited for.
    """
    engine = engines.get(name)
    is_coming = engines.is_starting(engine) and not engine.capability.is_remote
    if not engines.is_ready(engine) and not is_coming:
        raise come_back_later(away(engine.capability.name))
    return engine


def come_back_later(error: EngineError) -> EngineError:
    """The error of an engine that is away, with a time after which trying again makes sense."""
    error.remedy = "Try again after the time in Retry-After; or submit a job, which waits for the engine."
    error.retry_after_seconds = random.randint(*_RETRY_SECONDS)  # noqa: S311 - spreads load, guards nothing
    return error


@asynccontextmanager
async def waiting_place(context: JobContext, engine: Engine) -> AsyncIterator[None]:
    """A place until the block ends. Raises Busy when all are taken, with the time in which those before will drain."""
    room = context.gates.room
    seconds = 1 if room.taken < room.places else await waiting_retry_seconds(context, engine)
    async with room.place(retry_after_seconds=seconds):
        yield


async def waiting_retry_seconds(context: JobContext, engine: Engine) -> int:
    """Seconds until the requests that wait will have been served, jittered."""
    gate = context.gates.of(engine)
    drain = gate.drain_seconds
    if drain is None:
        drain = (await asyncio.to_thread(_pace, context, engine)).drain_seconds
    return pace.retry_after_seconds(max(1, gate.waiting_requests), drain)


def _pace(context: JobContext, engine: Engine) -> pace.Pace:
    with context.database.reading() as session:
        return pace.measure(session, engine.capability.name, engine.slots)
