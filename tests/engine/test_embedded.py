"""The embedded engine around its children: probe, refusals, and failures that cost one page only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import psutil
import pytest
from PIL import Image

from portal.domain import PageImage, Task, TaskPrompt
from portal.engine import embedded
from portal.engine.base import Engine
from portal.engine.embedded import EmbeddedEngine
from portal.errors import EngineError, TaskUnavailable
from tests.engine.conftest import save


@pytest.fixture(scope="module")
def dense_page(tmp_path_factory: pytest.TempPathFactory) -> PageImage:
    """A page that takes seconds and the most memory: large, full of marks."""
    image = Image.effect_noise((2200, 2200), 200)
    return save(image, tmp_path_factory.mktemp("dense") / "dense.png")


@pytest.fixture(scope="module")
def engine() -> Iterator[EmbeddedEngine]:
    made = EmbeddedEngine(2, page_seconds=100)
    asyncio.run(made.start())
    yield made
    asyncio.run(made.close())


def _read(engine: Engine, image: PageImage, task: Task = Task.EXTRACT) -> str:
    return asyncio.run(engine.recognise(image, TaskPrompt(task=task))).text


def _workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_page_is_read_when_the_engine_is_started(engine: EmbeddedEngine, letter: PageImage) -> None:
    assert "Dear customer," in _read(engine, letter)


def test_pages_are_read_at_once_when_there_are_slots(engine: EmbeddedEngine, letter: PageImage) -> None:
    async def both() -> list[str]:
        pages = await asyncio.gather(*(engine.recognise(letter, TaskPrompt()) for _ in range(4)))
        return [page.text for page in pages]

    assert len(set(asyncio.run(both()))) == 1
    assert engine.slots == 2


@pytest.mark.parametrize(("task", "words"), [(Task.TRANSLATE, "language model")])
def test_task_is_refused_with_a_reason_when_it_is_not_offered(
    engine: EmbeddedEngine, letter: PageImage, task: Task, words: str
) -> None:
    assert words in engine.capability.unavailable[task]
    with pytest.raises(TaskUnavailable, match=words):
        _read(engine, letter, task)


def test_one_page_fails_retryably_when_its_worker_dies(
    engine: EmbeddedEngine, letter: PageImage, dense_page: PageImage
) -> None:
    async def killed() -> EngineError:
        call = asyncio.create_task(engine.recognise(dense_page, TaskPrompt()))
        await asyncio.sleep(0.3)
        for worker in _workers():
            worker.kill()
        with pytest.raises(EngineError) as failure:
            await call
        return failure.value

    failure = asyncio.run(killed())
    assert not failure.is_permanent
    assert failure.code == "engine_failed"
    assert "Dear customer," in _read(engine, letter)


def test_page_fails_for_good_when_it_takes_too_long(dense_page: PageImage) -> None:
    slow = EmbeddedEngine(1, page_seconds=1)
    with pytest.raises(EngineError) as failure:
        _read(slow, dense_page)
    asyncio.run(slow.close())
    assert (failure.value.is_permanent, failure.value.code) == (True, "page_timeout")
    assert "(1 s)" in failure.value.message


def test_page_fails_retryably_when_memory_is_short(monkeypatch: pytest.MonkeyPatch, dense_page: PageImage) -> None:
    monkeypatch.setattr(embedded, "ADDRESS_SPACE_BYTES", 700 * 2**20)
    small = EmbeddedEngine(1, page_seconds=100)
    with pytest.raises(EngineError, match="memory") as failure:
        _read(small, dense_page)
    asyncio.run(small.close())
    assert not failure.value.is_permanent


def test_start_fails_when_the_probe_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "probe_image", lambda path: save(Image.new("L", (200, 200), 255), path))
    blind = EmbeddedEngine(1, page_seconds=100)
    with pytest.raises(EngineError, match="test page") as failure:
        asyncio.run(blind.start())
    asyncio.run(blind.close())
    assert failure.value.is_permanent


def test_pages_under_way_and_later_ones_fail_retryably_when_it_closes(dense_page: PageImage) -> None:
    async def close_while_reading() -> list[EngineError]:
        engine = EmbeddedEngine(1, page_seconds=100)
        calls = [asyncio.create_task(engine.recognise(dense_page, TaskPrompt())) for _ in range(2)]
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await engine.close()
        assert time.monotonic() - began < 10
        calls.append(asyncio.create_task(engine.recognise(dense_page, TaskPrompt())))
        return [failure for failure in await asyncio.gather(*calls, return_exceptions=True)]  # type: ignore[misc]

    failures = asyncio.run(close_while_reading())
    assert all(isinstance(failure, EngineError) and not failure.is_permanent for failure in failures)
