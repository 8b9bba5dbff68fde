"""The scripted engine keeps the Engine protocol and plays what it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from portal.domain import PageImage, Task, TaskPrompt
from portal.engine import fakes
from portal.engine.base import Engine
from portal.errors import EngineError, TaskUnavailable

_IMAGE = PageImage(Path("1.png"), 600, 800)


def _read(engine: Engine, image: PageImage = _IMAGE) -> str:
    return asyncio.run(engine.recognise(image, TaskPrompt())).text


def test_steps_are_played_in_turn_when_a_page_is_read_again() -> None:
    engine = fakes.FakeEngine(fakes.fails(), fakes.crashes(), fakes.answers("done"))
    with pytest.raises(EngineError):
        _read(engine)
    with pytest.raises(RuntimeError):
        _read(engine)
    assert [_read(engine), _read(engine)] == ["done", "done"]
    assert engine.calls[_IMAGE.path] == 4


def test_page_plays_its_own_script_when_it_has_one() -> None:
    engine = fakes.FakeEngine(scripts={_IMAGE.path: [fakes.blank()]})
    assert _read(engine) == ""
    assert _read(engine, PageImage(Path("2.png"), 600, 800)) == "Total 9.00"


def test_answer_comes_after_the_deadline_when_it_hangs() -> None:
    engine = fakes.FakeEngine(fakes.hangs())
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(engine.recognise(_IMAGE, TaskPrompt()), 0.02))


def test_task_is_refused_when_it_is_not_offered() -> None:
    with pytest.raises(TaskUnavailable, match="reads text only"):
        asyncio.run(fakes.FakeEngine().recognise(_IMAGE, TaskPrompt(task=Task.TRANSLATE)))


def test_held_calls_fail_retryably_when_the_engine_closes() -> None:
    async def close_while_held() -> EngineError:
        engine = fakes.FakeEngine()
        engine.is_held = True
        call = asyncio.create_task(engine.recognise(_IMAGE, TaskPrompt()))
        await asyncio.sleep(0.02)
        await engine.close()
        with pytest.raises(EngineError) as failure:
            await call
        return failure.value

    assert not asyncio.run(close_while_held()).is_permanent
