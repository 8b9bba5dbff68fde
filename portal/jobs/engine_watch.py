"""Starts one engine and goes on asking whether it answers: what /readyz says and whether its lane takes pages."""

from __future__ import annotations

import asyncio

import structlog

from portal.engine.base import Engine
from portal.errors import PortalError
from portal.jobs.context import Engines

log = structlog.get_logger()

RETRY_SECONDS = 10.0
PROBE_SECONDS = 10.0


async def watch(engines: Engines, engine: Engine, *, probe_seconds: float = PROBE_SECONDS) -> None:
    """Runs until it is cancelled. An engine that is away is asked again until it is back; its pages wait meanwhile."""
    has_started = await _has_started(engines, engine)
    while True:
        await asyncio.sleep(probe_seconds if has_started else RETRY_SECONDS)
        if has_started:
            await _look(engines, engine)
        else:
            has_started = await _has_started(engines, engine)


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
