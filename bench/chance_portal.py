"""The whole portal with an engine that takes no processor time: what `bench.kills` starts and ends, again and again.

It serves as `python app.py serve` does; only its engine answers by chance, as fast as pages come: text, nothing, a cut
text, an error. So a round of kills is about the portal's own work.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace

import app
from portal.domain import EngineCapability, PageImage, Task, TaskPrompt
from portal.engine import configuration
from portal.engine.base import PLAIN_CALL, Call, Engine
from portal.engine.fakes import written
from portal.errors import EngineError
from portal.page_text import PageText
from portal.settings import EngineSettings


class ChanceEngine:
    """Reads what chance says, within a tenth of a second."""

    capability = EngineCapability("chance", "chance", "1", frozenset({Task.EXTRACT}), ("en",))
    slots = 2

    async def start(self) -> None:
        """Is ready at once."""

    async def probe(self) -> None:
        """Always answers."""

    async def recognise(self, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL) -> PageText:
        """A text in seven of ten calls, else nothing, a cut text or an EngineError."""
        del prompt, call
        chance = random.random()
        await asyncio.sleep(chance / 10)
        if chance > 0.9:
            raise EngineError("The page is too dark.", is_permanent=True)
        page = written("" if chance > 0.8 else "Total 9.00", width_px=image.width_px, height_px=image.height_px)
        return replace(page, truncated="repetition") if 0.7 < chance < 0.8 else page

    async def close(self) -> None:
        """Has nothing to free."""


def _engines(settings: EngineSettings) -> list[Engine]:
    del settings
    return [ChanceEngine()]


if __name__ == "__main__":
    os.umask(0o077)
    configuration.configured_engines = _engines
    app.serve()
