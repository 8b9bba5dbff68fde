"""The door and its engine in front of a real vLLM: OpenAI's own client, aborts, loops, and a death under load."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from portal.domain import PageImage, TaskPrompt
from portal.page_text import PageText
from tests.vllm.conftest import CheckpointMaker
from tests.vllm.doors import DoorPortal, door_portal, generated_tokens, router, tiny_engine
from tests.vllm.servers import RealVllm, data_url, page_image, start_vllm, stop_vllm


@pytest.fixture(scope="module")
def portal(real_vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorPortal]:
    engine = tiny_engine(real_vllm.url, real_vllm.model)
    with door_portal(tmp_path_factory.mktemp("door"), engine) as running:
        yield running


def _messages(number: int) -> Any:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(page_image(number))}}]}]


def _ask(client: openai.OpenAI, number: int, **options: Any) -> Any:
    options = {"max_tokens": 32, "temperature": 0, **options}
    return client.chat.completions.create(model="default", messages=_messages(number), **options)


def test_page_is_read_by_the_request_of_its_profile(real_vllm: RealVllm, tmp_path: Path) -> None:
    page_image(1).save(tmp_path / "page.png")

    async def read() -> PageText:
        engine = tiny_engine(real_vllm.url, real_vllm.model)
        await engine.start()
        try:
            return await engine.recognise(PageImage(tmp_path / "page.png", 300, 220), TaskPrompt())
        finally:
            await engine.close()

    text = asyncio.run(read())
    assert text.markdown.strip() or text.is_blank
    assert text.truncated in (None, "repetition", "length")


def test_openai_client_reads_what_vllm_says_plain_and_as_a_stream(portal: DoorPortal, real_vllm: RealVllm) -> None:
    direct = httpx.post(
        f"{real_vllm.url}/v1/chat/completions",
        json={"model": "ocr", "messages": _messages(3), "max_tokens": 32, "temperature": 0, "top_p": 0.9},
        timeout=300,
    ).json()["choices"][0]["message"]["content"]
    before = len(portal.entries())
    with portal.client() as client:
        plain = _ask(client, 3)
        chunks = list(_ask(client, 3, stream=True, stream_options={"include_usage": True}))
    assert plain.choices[0].message.content == direct
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == direct
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    assert portal.entries()[before:].count(("posted", "delivered")) == 2


def test_generation_stops_when_the_reader_leaves(portal: DoorPortal, real_vllm: RealVllm) -> None:
    before = len(portal.entries())
    with portal.client() as client:
        stream = _ask(client, 4, stream=True, max_tokens=1000, temperature=2)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        stream.close()
    assert portal.entries()[before:] == [("reserved", "request"), ("posted", "delivered")]
    time.sleep(0.5)
    said = generated_tokens(real_vllm.url)
    time.sleep(1.5)
    assert generated_tokens(real_vllm.url) == said


def test_image_that_vllm_cannot_decode_is_a_422_and_free(portal: DoorPortal) -> None:
    whole = io.BytesIO()
    page_image(5).save(whole, "PNG")
    content = whole.getvalue().replace(b"IDAT", b"iDAT")  # header and end are whole, and no pixel is left
    before = len(portal.entries())
    url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    messages: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    with portal.client() as client, pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(model="default", messages=messages)
    assert refused.value.code in ("engine_failed", "engine_image_refused")
    assert portal.entries()[before:] == [("reserved", "request"), ("returned", "not_delivered")]
    with portal.client() as client:
        assert _ask(client, 6).choices[0].message is not None


def test_loop_is_ended_by_vllm_before_the_longest_answer(portal: DoorPortal) -> None:
    """A checkpoint of random weights repeats itself by nature when it is asked greedily."""
    with portal.client() as client:
        answers = [_ask(client, number, max_tokens=1000) for number in range(7, 10)]
    ends = Counter(answer.choices[0].finish_reason for answer in answers)
    assert ends["repetition"], ends
    assert all(
        answer.usage.completion_tokens < 1000 for answer in answers if answer.choices[0].finish_reason != "length"
    )


def test_nothing_is_lost_and_nobody_charged_twice_when_an_instance_is_killed_under_load(
    real_vllm: RealVllm, vllm_python: Path, checkpoint: CheckpointMaker, tmp_path: Path
) -> None:
    other = start_vllm(vllm_python, checkpoint(), tmp_path / "other.log")
    try:
        with (
            router(vllm_python, [real_vllm.url, other.url], tmp_path / "router.log") as url,
            door_portal(tmp_path / "door", tiny_engine(url, real_vllm.model)) as portal,
            ThreadPoolExecutor(8) as threads,
        ):
            killed = threads.submit(_kill_under_load, portal, other)
            outcomes = list(threads.map(lambda number: _outcome(portal, number), range(60)))
            killed.result()
            entries = Counter(portal.entries())
    finally:
        stop_vllm(other)
    assert outcomes.count("lost") == 0, Counter(outcomes)
    charged = sum(outcome in ("read", "cut after text") for outcome in outcomes)
    assert outcomes.count("read") >= 50, Counter(outcomes)
    assert entries["posted", "delivered"] == charged
    assert entries["reserved", "request"] == 60


def _kill_under_load(portal: DoorPortal, server: RealVllm) -> None:
    """Kills the whole server once both instances have work."""
    while generated_tokens(server.url) < 200:
        time.sleep(0.05)
    os.killpg(server.process.pid, signal.SIGKILL)


def _outcome(portal: DoorPortal, number: int) -> str:
    """What became of a request: every second one is a stream."""
    is_stream = number % 2 == 1
    with portal.client() as client:
        try:
            answer = _ask(client, number, stream=is_stream, max_tokens=64)
            if not is_stream:
                return "read" if answer.choices[0].message.content else "blank"
            return _streamed(answer)
        except openai.APIStatusError as error:
            return "refused" if error.response.headers.get("Retry-After") else "lost"


def _streamed(stream: Any) -> str:
    has_text = False
    try:
        for chunk in stream:
            has_text |= bool(chunk.choices and chunk.choices[0].delta.content)
    except openai.APIError as error:
        return "cut after text" if has_text and error.code == "engine_stream_cut" else "lost"
    return "read" if has_text else "blank"
