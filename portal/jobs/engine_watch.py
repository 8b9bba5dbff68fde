"""Starts one engine and goes on asking whether it answers: what /readyz says and whether its lane takes pages."""

from __future__ import annotations

import asyncio
import time

import structlog

from portal.engine.base import Engine
from portal.errors import PortalError
from portal.jobs.context import Engines

log = structlog.get_logger()

RETRY_SECONDS = 10.0
PROBE_SECONDS = 10.0
AWAY_SECONDS = 2.0  # between two looks at one that started and went away: its pages wait for it


async def watch(engines: Engines, engine: Engine, *, probe_seconds: float = PROBE_SECONDS) -> None:
    """Runs until it is cancelled. An engine that is away is asked again until it is back; its pages wait meanwhile."""
    while not await _has_started(engines, engine):  # noqa: ASYNC110  it is asked again, nothing tells
        await asyncio.sleep(RETRY_SECONDS)
    asked_at = time.monotonic()
    while True:
        await asyncio.sleep(min(AWAY_SECONDS, probe_seconds))
        if not engines.is_ready(engine) or time.monotonic() - asked_at >= probe_seconds:
            await _look(engines, engine)
            asked_at = time.monotonic()


async def _has_started(engines: Engines, engine: Engine) -> bool:
    name = engine.capability.name
    try:
        await engine.start()
    except Exception as error:
        reason = _reason(error, "it failed at the start.")
        log.error("engine not ready", engine=name, reason=reason, exc_info=not isinstance(error, PortalError))
        engines.mark(engine, reason)
        return False
    engines.mark(engine, None)
    log.info("engine ready", engine=name, slots=engine.slots)
    return True


async def _look(engines: Engines, engine: Engine) -> None:
    was_ready = engines.is_ready(engine)
    try:
        await engine.probe()
    except Exception as error:  # noqa: BLE001  as above
        reason = _reason(error, "it failed when asked.")
        if was_ready:
            log.error("engine away", engine=engine.capability.name, reason=reason)
        engines.mark(engine, reason)
        return
    if not was_ready:
        log.info("engine back", engine=engine.capability.name)
    engines.mark(engine, None)


def _reason(error: Exception, otherwise: str) -> str:
    return error.message if isinstance(error, PortalError) else otherwise
