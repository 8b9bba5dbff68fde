"""An engine whose values have no places, with one beside it that reads lines with boxes: each value gets its box.

The second reading goes on beside the first and is waited for a little; whatever becomes of it, the page is as the
reader read it. It is asked for nothing but the task fields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final

import structlog

from portal.domain import EngineCapability, Mode, PageImage, Task, TaskPrompt
from portal.engine.base import PLAIN_CALL, Call, Engine
from portal.engine.fields.boxes import lack_boxes, with_boxes
from portal.engine.translating import TranslatingEngine
from portal.errors import EngineError
from portal.page_text import PageText

MOST_SECONDS: Final = 10.0
_MARGIN_SECONDS: Final = 5.0

log = structlog.get_logger()


class PlacingEngine:
    """`reader` with `seer`'s boxes for the values of fields. Closes the reader alone: the seer is an engine too."""

    def __init__(self, reader: Engine, seer: Engine, *, most_seconds: float = MOST_SECONDS) -> None:
        self.reader = reader
        self.seer = seer
        self._most_seconds = most_seconds

    @property
    def capability(self) -> EngineCapability:
        """The reader's, of a version that names the seer's: readings with and without boxes are told apart."""
        own, seer = self.reader.capability, self.seer.capability
        return replace(own, profile_version=f"{own.profile_version}+boxes-{seer.profile_version}")

    @property
    def slots(self) -> int:
        """The reader's."""
        return self.reader.slots

    async def start(self) -> None:
        """Starts the reader; the seer is started as the engine that it is."""
        await self.reader.start()

    async def probe(self) -> None:
        """The reader's."""
        await self.reader.probe()

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """As the reader does; fields with boxes where the seer finds their values. Raises as the reader does."""
        if prompt.task is not Task.FIELDS:
            return await self.reader.recognise(image, prompt, call)
        seeing = asyncio.create_task(self._see(image, call))
        seeing.add_done_callback(_told)
        try:
            page = await self.reader.recognise(image, prompt, call)
            if not lack_boxes(page.fields):
                return page
            seen = await self._awaited(seeing, call)
        finally:
            seeing.cancel()
        if seen is None or _sides(seen) != _sides(page):
            return page
        try:
            values = await asyncio.to_thread(with_boxes, page.fields or (), prompt.fields, seen)
        except EngineError as failure:
            log.info("values have no boxes", engine=self.seer.capability.name, reason=failure.code)
            return page
        return replace(page, fields=values)

    async def close(self) -> None:
        """Closes the reader."""
        await self.reader.close()

    def _see(self, image: PageImage, call: Call) -> Coroutine[Any, Any, PageText]:
        mode = Mode.SPOTTING if Mode.SPOTTING in self.seer.capability.modes else Mode.DOCUMENT
        return self.seer.recognise(image, TaskPrompt(mode=mode), call)

    async def _awaited(self, seeing: asyncio.Task[PageText], call: Call) -> PageText | None:
        """The second reading when it comes in time, well before the page's own deadline; None when it does not."""
        left = self._most_seconds
        if call.ends_at is not None:
            left = min(left, call.ends_at - asyncio.get_running_loop().time() - _MARGIN_SECONDS)
        await asyncio.wait({seeing}, timeout=max(0.0, left))
        if not seeing.done():
            log.info("values have no boxes", engine=self.seer.capability.name, reason="no second reading in time")
            return None
        return None if seeing.cancelled() or seeing.exception() is not None else seeing.result()


def innermost(engine: Engine) -> Engine:
    """The engine that reads, without those that stand in front of it."""
    while isinstance(engine, TranslatingEngine | PlacingEngine):
        engine = engine.reader
    return engine


def _sides(page: PageText) -> tuple[int, int, int]:
    return page.width_px, page.height_px, page.rotation_degrees


def _told(seeing: asyncio.Task[PageText]) -> None:
    """Takes note of a failure, which is nobody else's: the page goes on without boxes."""
    failure = None if seeing.cancelled() else seeing.exception()
    if failure is not None:
        log.warning("values have no boxes", reason=type(failure).__name__)
