"""POST /v1/chat/completions: failures are told, places freed, and what was delivered is charged."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from portal.domain import Scope
from tests.api.chat import CHARGED, PATH, RETURNED, asking, assert_idle, client_of, entries, messages
from tests.api.conftest import Persona, Portal, assert_problem, wait_until
from tests.ledger import limit_tenant
from tests.scripted_vllm import Failure, ScriptedVllm, fails, says, slow


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("failure", "calls", "status", "code"),
    [
        (Failure.IMAGE_REFUSED, 1, 422, "engine_image_refused"),
        (Failure.POISON, 1, 422, "engine_failed"),
        (Failure.CONTEXT_TOO_LONG, 1, 422, "engine_context_too_long"),
        (Failure.UNAUTHORIZED, 1, 503, "engine_unauthorized"),
        (Failure.UNKNOWN_MODEL, 1, 503, "engine_model_unknown"),
        (Failure.NOT_JSON, 1, 503, "engine_answer_invalid"),
        (Failure.BUSY, 3, 503, "engine_unavailable"),
        (Failure.SHUTTING_DOWN, 3, 503, "engine_unavailable"),
    ],
)
def test_failure_of_the_engine_is_told_and_free(
    live: Portal,
    alice: Persona,
    vllm: ScriptedVllm,
    is_stream: bool,
    failure: Failure,
    calls: int,
    status: int,
    code: str,
) -> None:
    vllm.next(*[fails(failure)] * calls)
    reply = alice.client.post(PATH, json=asking(stream=is_stream))
    assert_problem(reply, status, code)
    assert ("Retry-After" in reply.headers) == (status == 503)
    assert len([call for call in vllm.received if "x-request-id" in call.headers]) == calls
    assert entries(live, alice) == RETURNED
    assert_idle(live)


@pytest.mark.parametrize(("failure", "times"), [(Failure.BUSY, 1), (Failure.SHUTTING_DOWN, 1), (Failure.UNREACHED, 5)])
def test_answer_comes_when_another_call_helps(
    live: Portal, alice: Persona, vllm: ScriptedVllm, monkeypatch: pytest.MonkeyPatch, failure: Failure, times: int
) -> None:
    monkeypatch.setattr("portal.door.upstream._LOST_BACKOFF_SECONDS", (0, 0.01))
    vllm.next(*[fails(failure)] * times)
    assert alice.client.post(PATH, json=asking()).status_code == 200
    assert entries(live, alice) == CHARGED


def test_stream_cut_before_its_first_text_is_asked_again(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    vllm.next(fails(Failure.CUT, after_tokens=0))
    reply = alice.client.post(PATH, json=asking(stream=True))
    assert reply.text.endswith("data: [DONE]\n\n")
    assert entries(live, alice) == CHARGED


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure.CUT, "engine_stream_cut"),
        (Failure.HANG, "engine_silent"),
        (Failure.NOT_JSON_CHUNK, "engine_answer_invalid"),
        (Failure.ERROR_CHUNK, "engine_stream_cut"),
    ],
)
def test_failure_after_the_first_text_is_an_event_and_charged(
    live: Portal, alice: Persona, vllm: ScriptedVllm, failure: Failure, code: str
) -> None:
    vllm.next(fails(failure))
    reply = alice.client.post(PATH, json=asking(stream=True))
    events = [event.removeprefix("data: ") for event in reply.text.split("\n\n") if event]
    told = json.loads(events[-1])
    assert (reply.status_code, told["code"], told["error"]["code"]) == (200, code, code)
    assert "[DONE]" not in reply.text
    assert "EngineCore" not in reply.text
    assert entries(live, alice) == CHARGED
    assert_idle(live)


def test_openai_client_raises_when_the_stream_breaks(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    vllm.next(fails(Failure.CUT))
    with client_of(live, alice) as client:
        stream = client.chat.completions.create(model="default", messages=messages(), stream=True)
        with pytest.raises(openai.APIError) as broken:
            list(stream)
    assert broken.value.code == "engine_stream_cut"


@pytest.mark.parametrize("is_stream", [False, True])
def test_nothing_is_charged_when_there_is_no_text(
    live: Portal, alice: Persona, vllm: ScriptedVllm, is_stream: bool
) -> None:
    vllm.next(fails(Failure.EMPTY), says(" \n "))
    for _ in range(2):
        reply = alice.client.post(PATH, json=asking(stream=is_stream))
        assert reply.status_code == 200
        assert ("[DONE]" in reply.text) == is_stream
    assert entries(live, alice) == RETURNED * 2


def test_answer_cut_at_its_length_is_charged(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    vllm.next(says("a b c d e f"))
    reply = alice.client.post(PATH, json=asking(max_tokens=2))
    assert reply.json()["choices"][0]["finish_reason"] == "length"
    assert entries(live, alice) == CHARGED


@pytest.mark.parametrize("is_stream", [False, True])
def test_call_is_aborted_and_free_when_the_client_leaves_before_the_first_text(
    live: Portal, alice: Persona, vllm: ScriptedVllm, is_stream: bool
) -> None:
    vllm.next(slow(30))
    with pytest.raises(httpx.ReadTimeout):
        alice.client.post(PATH, json=asking(stream=is_stream), timeout=0.5)
    assert entries(live, alice) == RETURNED
    vllm.wait_until(lambda: vllm.running == 0)
    assert_idle(live)


def test_call_is_aborted_and_charged_when_the_client_leaves_after_the_first_text(
    live: Portal, alice: Persona, vllm: ScriptedVllm
) -> None:
    vllm.token_seconds = 0.2
    vllm.next(says("word " * 200))
    with alice.client.stream("POST", PATH, json=asking(stream=True)) as reply:
        for line in reply.iter_lines():
            if "word" in line:
                break
    vllm.wait_until(lambda: vllm.running == 0)
    assert vllm.generated_tokens < 50
    assert entries(live, alice) == CHARGED
    assert_idle(live)


def test_waiting_request_leaves_nothing_behind_when_its_client_goes(
    live: Portal, alice: Persona, vllm: ScriptedVllm
) -> None:
    vllm.always(slow(1.0))
    with ThreadPoolExecutor(8) as threads:
        held = [threads.submit(alice.client.post, PATH, json=asking()) for _ in range(3)]
        room = live.services.jobs.gates.room
        wait_until(lambda: len(vllm.received) == 2)
        with pytest.raises(httpx.ReadTimeout):
            alice.client.post(PATH, json=asking(), timeout=0.3)
        assert {reply.result().status_code for reply in held} == {200}
    assert room.taken == 0
    assert sorted(entries(live, alice)) == sorted(CHARGED * 3 + RETURNED)


def test_request_past_the_waiting_room_is_told_when_to_come_back(
    live: Portal, alice: Persona, vllm: ScriptedVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = live.services.jobs.gates.room
    monkeypatch.setattr(room, "places", 0)
    reply = alice.client.post(PATH, json=asking())
    assert_problem(reply, 503, "backlog_full")
    assert int(reply.headers["Retry-After"]) >= 1
    assert (entries(live, alice), vllm.received) == ([], [])


def test_images_past_the_byte_budget_are_refused(live: Portal, alice: Persona, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.services.door.spool, "budget_bytes", 100)
    assert_problem(alice.client.post(PATH, json=asking()), 503, "backlog_full")
    assert_idle(live)


def test_engine_that_is_away_is_told_at_once(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    engines = live.services.jobs.engines
    engine = engines.get("vllm")
    calls = len(vllm.received)
    vllm.api_key = "another"  # so that its watch finds it no better
    engines.mark(engine, "it does not answer.")
    reply = alice.client.post(PATH, json=asking())
    vllm.api_key = None
    assert_problem(reply, 503, "engine_unavailable")
    assert 5 <= int(reply.headers["Retry-After"]) <= 15
    assert (len(vllm.received), entries(live, alice)) == (calls, [])


def test_request_ends_when_its_time_is_up(
    live: Portal, alice: Persona, vllm: ScriptedVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.door.passage.MAX_ENGINE_SECONDS", 0.6)
    vllm.token_seconds = 0.1
    vllm.always(says("word " * 100))
    assert_problem(alice.client.post(PATH, json=asking()), 503, "page_timeout")
    reply = alice.client.post(PATH, json=asking(stream=True))
    assert json.loads(reply.text.strip().rsplit("data: ", 1)[1])["code"] == "page_timeout"
    assert entries(live, alice) == [*RETURNED, *CHARGED]
    assert_idle(live)


def test_image_past_the_plans_limit_is_refused(live: Portal, alice: Persona) -> None:
    limit_tenant(live.services.database, alice.principal.tenant_id, max_file_bytes=10)
    assert_problem(alice.client.post(PATH, json=asking()), 413, "file_too_large")
    assert entries(live, alice) == []


def test_weight_of_the_plan_reaches_engine_and_gate(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    limit_tenant(live.services.database, alice.principal.tenant_id, weight=3)
    assert alice.client.post(PATH, json=asking()).status_code == 200
    assert vllm.received[-1].body["priority"] == -20


def test_tenants_take_turns_and_everybody_is_charged_once_when_many_ask_at_once(
    live: Portal, alice: Persona, charlie: Persona, people: Callable[..., Persona], vllm: ScriptedVllm
) -> None:
    charlie = people(charlie.principal, scopes=(Scope.CHAT,))
    vllm.token_seconds = 0.02
    order: list[str] = []
    lock = threading.Lock()

    def ask(who: Persona) -> None:
        reply = who.client.post(PATH, json=asking(stream=True))
        assert reply.text.endswith("data: [DONE]\n\n")
        with lock:
            order.append(who.principal.tenant_id)

    with ThreadPoolExecutor(24) as threads:
        for done in [threads.submit(ask, alice) for _ in range(18)]:
            wait_until(lambda: live.services.jobs.gates.room.taken > 6 or done.done())  # noqa: B023
        list(threads.map(ask, [charlie] * 2))
    assert charlie.principal.tenant_id in order[:-2]
    assert sorted(entries(live, alice)) == sorted(CHARGED * 18)
    assert sorted(entries(live, charlie)) == sorted(CHARGED * 2)
    assert vllm.most_running <= 2
    assert_idle(live)
