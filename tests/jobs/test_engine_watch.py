"""An engine that is away is told in words, and taken up again when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from portal.domain import Mode, Task, TaskPrompt
from portal.engine.fakes import FakeEngine, fake_capability
from portal.errors import InvalidRequest, TaskUnavailable
from portal.jobs import engine_watch
from portal.jobs.context import Engines, require_task
from portal.jobs.engine_watch import watch


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.005)


def test_engine_is_told_away_and_back() -> None:
    engine = FakeEngine()
    engines = Engines([engine])

    async def watched() -> None:
        watching = asyncio.create_task(watch(engines, engine, probe_seconds=0.01))
        await _until(lambda: engines.is_ready(engine))
        engine.trouble = "The engine fake does not answer."
        await _until(lambda: engines.troubles == {"fake": "The engine fake does not answer."})
        engine.trouble = None
        await _until(lambda: engines.is_ready(engine))
        watching.cancel()

    asyncio.run(watched())


def test_engine_that_is_away_at_the_start_is_started_when_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_watch, "RETRY_SECONDS", 0.01)
    engine = FakeEngine()
    engines = Engines([engine])
    starts = []

    async def start() -> None:
        starts.append(1)
        if len(starts) < 3:
            raise RuntimeError("a bug at the start")

    engine.start = start  # type: ignore[method-assign]

    async def watched() -> None:
        watching = asyncio.create_task(watch(engines, engine))
        await _until(lambda: engines.troubles == {"fake": "it failed at the start."})
        await _until(lambda: engines.is_ready(engine))
        watching.cancel()

    asyncio.run(watched())
    assert len(starts) == 3


def test_prompt_is_refused_when_the_engine_has_no_such_mode_or_language() -> None:
    capability = replace(fake_capability(), tasks=frozenset({Task.EXTRACT, Task.TRANSLATE}), targets=("en", "zh"))
    engine = FakeEngine(capability=capability)
    require_task(engine, TaskPrompt(task=Task.TRANSLATE, language="zh"))
    with pytest.raises(TaskUnavailable, match="does not translate into German"):
        require_task(engine, TaskPrompt(task=Task.TRANSLATE, language="de"))
    with pytest.raises(InvalidRequest, match="needs the language"):
        require_task(engine, TaskPrompt(task=Task.TRANSLATE))
    with pytest.raises(TaskUnavailable, match="mode 'spotting'"):
        require_task(engine, TaskPrompt(mode=Mode.SPOTTING))
