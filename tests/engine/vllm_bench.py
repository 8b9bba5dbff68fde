"""A scripted vLLM, an engine that speaks to it, and a page with something on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from portal.domain import PageImage, TaskPrompt
from portal.engine.base import PLAIN_CALL, Call, Engine
from portal.engine.profiles import profile_for
from portal.engine.vllm.engine import VllmEngine
from portal.engine.vllm.options import ServerOptions, VllmOptions
from portal.page_text import PageText
from tests.scripted_vllm import ScriptedVllm, running_vllm

HUNYUAN = "tencent/HunyuanOCR"
Read = Callable[..., PageText]


@pytest.fixture(scope="session")
def _server() -> Iterator[ScriptedVllm]:
    with running_vllm() as server:
        yield server


@pytest.fixture
def vllm(_server: ScriptedVllm) -> ScriptedVllm:
    """As it starts: LightOnOCR, no key, no latency."""
    fresh = ScriptedVllm()
    for name in ("model", "api_key", "max_model_len", "token_seconds", "has_repetition_detection", "tokens_a_chunk"):
        setattr(_server, name, getattr(fresh, name))
    _server.always(fresh._standing)
    _server.forget()
    return _server


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> PageImage:
    """A page of 1000 × 500 pixels with a word on it."""
    image = Image.new("RGB", (1000, 500), "white")
    ImageDraw.Draw(image).text((100, 100), "Total", fill="black")
    path = tmp_path_factory.mktemp("vllm") / "page.png"
    image.save(path)
    return PageImage(path, *image.size)


def make_engine(vllm: ScriptedVllm, **options: Any) -> VllmEngine:
    """An engine for the model that the server serves; `options` of VllmOptions and ServerOptions."""
    server = ServerOptions(url=vllm.url, model=vllm.model)
    own = {name: options.pop(name) for name in list(options) if name in ServerOptions.__slots__}
    given = VllmOptions(name="vllm", server=replace(server, **own), profile=profile_for(vllm.model))
    return VllmEngine(replace(given, **options))


@pytest.fixture
def read(vllm: ScriptedVllm, page: PageImage) -> Read:
    """Reads the page once: `read(prompt, **options)`."""

    def read_once(prompt: TaskPrompt | None = None, image: PageImage = page, **options: Any) -> PageText:
        return read_by(make_engine(vllm, **options), image, prompt or TaskPrompt())

    return read_once


def read_by(
    engine: Engine, image: PageImage, prompt: TaskPrompt, call: Call = PLAIN_CALL, *, others: Sequence[Engine] = ()
) -> PageText:
    """Reads one page, and closes the engine and those that help it in the event loop that their connections are of."""

    async def reading() -> PageText:
        try:
            return await engine.recognise(image, prompt, call)
        finally:
            for each in (engine, *others):
                await each.close()

    return asyncio.run(reading())


def blank(folder: Path) -> PageImage:
    """White paper."""
    Image.new("RGB", (300, 400), "white").save(folder / "blank.png")
    return PageImage(folder / "blank.png", 300, 400)
