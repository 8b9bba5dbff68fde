"""The scripted vLLM keeps what its users rely on: real streams, real cuts, aborts counted, a batch that slows down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.scripted_vllm import Failure, ScriptedVllm, fails, repeats, running_vllm, says, unused_url


@pytest.fixture
def vllm() -> Iterator[ScriptedVllm]:
    with running_vllm() as server:
        yield server


def _body(vllm: ScriptedVllm, **more: Any) -> dict[str, Any]:
    return {"model": vllm.model, "messages": [{"role": "user", "content": "hello"}], **more}


def _post(vllm: ScriptedVllm, **more: Any) -> httpx.Response:
    return httpx.post(f"{vllm.url}/chat/completions", json=_body(vllm, **more), timeout=10)


def _events(answer: httpx.Response) -> list[str]:
    return [row.removeprefix("data: ") for row in answer.text.split("\n\n") if row]


def test_plain_and_streamed_text_are_the_same_when_asked_both_ways(vllm: ScriptedVllm) -> None:
    vllm.always(says("# Rechnung\n\n合計 9.00 €  \nEnde\n"))
    plain = _post(vllm).json()["choices"][0]["message"]["content"]
    events = _events(_post(vllm, stream=True, stream_options={"include_usage": True}))
    chunks = [json.loads(event) for event in events[:-1]]
    streamed = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks[:-1])
    assert plain == streamed == "# Rechnung\n\n合計 9.00 €  \nEnde\n"
    assert events[-1] == "[DONE]"
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert vllm.received[0].texts == ["hello"]


def test_stream_is_broken_off_without_its_end_when_it_is_cut(vllm: ScriptedVllm) -> None:
    vllm.next(fails(Failure.CUT))
    with pytest.raises(httpx.RemoteProtocolError):
        _post(vllm, stream=True)
    assert _post(vllm).status_code == 200


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Failure.UNAUTHORIZED, 401),
        (Failure.UNKNOWN_MODEL, 404),
        (Failure.IMAGE_REFUSED, 400),
        (Failure.CONTEXT_TOO_LONG, 400),
        (Failure.SHUTTING_DOWN, 500),
        (Failure.POISON, 500),
        (Failure.BUSY, 503),
    ],
)
def test_failure_has_its_status_when_scripted(vllm: ScriptedVllm, failure: Failure, status: int) -> None:
    vllm.next(fails(failure))
    assert _post(vllm).status_code == status


def test_abort_is_counted_when_the_client_leaves(vllm: ScriptedVllm) -> None:
    vllm.always(fails(Failure.HANG))
    for is_stream in (True, False):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{vllm.url}/chat/completions", json=_body(vllm, stream=is_stream), timeout=0.3)
    vllm.wait_until(lambda: vllm.aborted == 2 and vllm.running == 0)


def test_repetition_ends_early_when_detection_is_asked(vllm: ScriptedVllm) -> None:
    vllm.always(repeats("again and "))
    detection = {"max_pattern_size": 16, "min_pattern_size": 1, "min_count": 4}
    cut = _post(vllm, repetition_detection=detection).json()["choices"][0]
    whole = _post(vllm, max_tokens=100).json()["choices"][0]
    assert (cut["finish_reason"], cut["message"]["content"]) == ("repetition", "again and " * 4)
    assert whole["finish_reason"] == "length"


def test_calls_wait_for_a_place_when_the_batch_is_full(vllm: ScriptedVllm) -> None:
    vllm.max_running, vllm.token_seconds = 2, 0.01
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: _post(vllm).status_code, range(6)))
    assert answers == [200] * 6
    assert vllm.most_running == 2
    assert (
        'vllm:request_success_total{engine="0",finished_reason="stop"} 6'
        in httpx.get(vllm.url.removesuffix("/v1") + "/metrics").text
    )


def test_nothing_answers_when_the_url_is_unused() -> None:
    with pytest.raises(httpx.ConnectError):
        httpx.get(unused_url())
