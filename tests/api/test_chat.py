"""POST /v1/chat/completions: OpenAI's own client works by changing address and key; each refusal and failure is told.

What came back, what vLLM was sent, and what the ledger says.
"""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from PIL import Image
from sqlalchemy import select

from models import LedgerEntry, TenantUsage
from portal.domain import Scope
from portal.door.offer import chosen
from portal.engine.fakes import FakeEngine
from portal.errors import TaskUnavailable
from portal.jobs import engine_watch
from portal.jobs.context import Engines
from tests.api.conftest import Persona, Portal, assert_problem, png, serving, wait_until
from tests.engine.vllm_bench import HUNYUAN, make_engine
from tests.ledger import assert_books_agree, limit_tenant
from tests.running_portal import ROOT
from tests.scripted_vllm import LIGHTON, Failure, ScriptedVllm, fails, running_vllm, says, slow

PATH = "/v1/chat/completions"
TEXT = "提取图中的文字。"


@pytest.fixture(scope="module")
def vllm_servers() -> Iterator[tuple[ScriptedVllm, ScriptedVllm]]:
    """LightOnOCR and HunyuanOCR."""
    with running_vllm() as lighton, running_vllm(model=HUNYUAN) as hunyuan:
        yield lighton, hunyuan


@pytest.fixture(scope="module")
def _chatting(
    vllm_servers: tuple[ScriptedVllm, ScriptedVllm], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Portal]:
    lighton, hunyuan = vllm_servers
    engines: list[Any] = [
        make_engine(lighton, slots=2, first_token_seconds=1.5, silence_seconds=1.0),
        make_engine(hunyuan, name="hunyuan"),
        FakeEngine(),
    ]
    before, engine_watch.AWAY_SECONDS = engine_watch.AWAY_SECONDS, 0.05
    with serving(tmp_path_factory.mktemp("portal"), engines) as (url, services):
        yield Portal(url, services, engines[-1])
    engine_watch.AWAY_SECONDS = before


@pytest.fixture
def live(_chatting: Portal, vllm: ScriptedVllm, hunyuan: ScriptedVllm) -> Portal:
    """A portal with LightOnOCR (the default; two slots), HunyuanOCR, and an engine that is not on vLLM."""
    engines = _chatting.services.jobs.engines
    wait_until(lambda: not engines.troubles)
    vllm.forget()
    hunyuan.forget()
    return _chatting


@pytest.fixture
def vllm(vllm_servers: tuple[ScriptedVllm, ScriptedVllm]) -> ScriptedVllm:
    """The one that LightOnOCR is served by."""
    server = vllm_servers[0]
    server.token_seconds, server.tokens_a_chunk, server.api_key = 0.0, 1, None
    server.always(says("Total 9.00"))
    return server


@pytest.fixture
def hunyuan(vllm_servers: tuple[ScriptedVllm, ScriptedVllm]) -> ScriptedVllm:
    """The one that HunyuanOCR is served by."""
    vllm_servers[1].always(says("合计 9.00"))
    return vllm_servers[1]


@pytest.fixture
def alice(live: Portal, alice: Persona, people: Callable[..., Persona]) -> Persona:
    """The owner of a fresh tenant, with a key for chats."""
    return people(alice.principal, scopes=(Scope.CHAT, Scope.READ))


def data_url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def image(url: str | None = None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url or data_url(png())}}


def asking(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": list(parts) or [image()]}], **fields}


def entries(live: Portal, who: Persona) -> list[tuple[str, str, int]]:
    """(kind, reason, pages) of the tenant's ledger, once nothing of it is pending; the books agree."""
    usage = select(TenantUsage.pending_pages).where(TenantUsage.tenant_id == who.principal.tenant_id)

    def is_settled() -> bool:
        with live.services.database.reading() as session:
            return not session.scalar(usage)

    wait_until(is_settled)
    with live.services.database.reading() as session:
        assert_books_agree(session)
        rows = session.scalars(
            select(LedgerEntry)
            .where(LedgerEntry.tenant_id == who.principal.tenant_id)
            .order_by(LedgerEntry.created_at, LedgerEntry.id)
        )
        return [(row.kind, row.reason, row.pages) for row in rows]


CHARGED = [("reserved", "request", 1), ("posted", "delivered", 1)]
RETURNED = [("reserved", "request", 1), ("returned", "not_delivered", 1)]


def assert_idle(live: Portal) -> None:
    """No slot, place in the waiting room, or byte of an image is held."""
    door, gates = live.services.door, live.services.jobs.gates
    wait_until(lambda: door.spool.used_bytes == 0 and gates.room.taken == 0)
    for engine in live.services.jobs.engines.all:
        own = gates.of(engine)
        wait_until(lambda own=own: own._under_way == 0)  # type: ignore[misc]


def client_of(live: Portal, who: Persona) -> openai.OpenAI:
    """OpenAI's client with nothing changed but address and key."""
    return openai.OpenAI(api_key=who.key, base_url=f"{live.url}/v1", max_retries=0, timeout=20)


def messages(*parts: Any) -> Any:
    return asking(*parts)["messages"]


def test_page_is_read_and_charged_when_the_openai_client_asks(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    with client_of(live, alice) as client:
        raw = client.chat.completions.with_raw_response.create(model=LIGHTON, messages=messages())
        assert client.models.list().data[0].id == "vllm"
    answer = raw.parse()
    assert answer.choices[0].message.content == "Total 9.00"
    assert answer.usage is not None
    sent = vllm.received[-1]
    assert sent.images == [data_url(png())]
    assert (sent.texts, sent.body["temperature"], sent.body["max_tokens"]) == ([], 0.2, 4096)
    assert sent.headers["x-request-id"] == raw.headers["X-Request-Id"]
    assert raw.headers["X-RateLimit-Resource"]
    assert alice.key not in json.dumps([sent.headers, sent.body])
    assert alice.principal.tenant_name not in json.dumps([sent.headers, sent.body])
    assert entries(live, alice) == CHARGED
    assert_idle(live)


def test_stream_passes_as_it_comes_with_usage_and_end(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    vllm.always(says("one two three four five"))
    vllm.token_seconds = 0.05
    moments = []
    with client_of(live, alice) as client:
        stream = client.chat.completions.create(
            model="vllm", messages=messages(), stream=True, stream_options={"include_usage": True}
        )
        chunks = []
        for chunk in stream:
            chunks.append(chunk)
            moments.append(time.monotonic())
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two three four five"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5
    assert len({round(moment, 2) for moment in moments}) > 3  # held back they would come at once
    assert entries(live, alice) == CHARGED


def test_stream_is_byte_for_byte_what_vllm_sends(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    reply = alice.client.post(PATH, json=asking(stream=True))
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    assert reply.headers["X-Accel-Buffering"] == "no"
    lines = [line for line in reply.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    assert all(json.loads(line.removeprefix("data: "))["object"] == "chat.completion.chunk" for line in lines[:-1])


def test_prompt_of_the_profile_may_be_said_by_any_key(live: Portal, alice: Persona, hunyuan: ScriptedVllm) -> None:
    listed = next(each for each in alice.client.get("/v1/models").json()["data"] if each["id"] == "hunyuan")["chat"]
    fields = (
        listed["prompts"]["fields"].replace("{keys}", "['单位', 'Total']") if "fields" in listed["prompts"] else TEXT
    )
    for text in (TEXT, listed["prompts"]["translate-en"], fields):
        reply = alice.client.post(PATH, json=asking({"type": "text", "text": text}, image(), model=HUNYUAN))
        assert reply.status_code == 200, reply.text
        assert hunyuan.received[-1].texts[-1] == text
        parts = hunyuan.received[-1].body["messages"][-1]["content"]
        assert [part["type"] for part in parts] == ["image_url", "text"]
        assert hunyuan.received[-1].body["messages"][0] == {"role": "system", "content": ""}
    plain = alice.client.post(PATH, json=asking(model="hunyuan"))
    assert plain.status_code == 200
    assert hunyuan.received[-1].texts[-1] == listed["prompts"]["document"]
    assert len(entries(live, alice)) == 2 * 4
    usage = alice.client.get("/v1/usage").json()
    assert usage["total"]["charged"] == 4


def test_own_prompt_needs_the_scope_prompt(live: Portal, alice: Persona, people: Callable[..., Persona]) -> None:
    body = asking(image(), {"type": "text", "text": "Describe the picture"}, model="hunyuan")
    refused = assert_problem(alice.client.post(PATH, json=body), 403, "prompt_not_allowed")
    assert refused["error"]["code"] == "prompt_not_allowed"
    assert entries(live, alice) == []
    system = asking(model="hunyuan")
    system["messages"].insert(0, {"role": "system", "content": "You are a poet"})
    assert_problem(alice.client.post(PATH, json=system), 403, "prompt_not_allowed")
    lifted = people(alice.principal, scopes=(Scope.CHAT, Scope.PROMPT))
    assert lifted.client.post(PATH, json=body).status_code == 200
    assert lifted.client.post(PATH, json=system).status_code == 200


def test_text_is_refused_when_the_checkpoint_takes_none(
    live: Portal, alice: Persona, people: Callable[..., Persona], vllm: ScriptedVllm
) -> None:
    lifted = people(alice.principal, scopes=(Scope.CHAT, Scope.PROMPT))
    body = asking(image(), {"type": "text", "text": "Read this"})
    assert_problem(lifted.client.post(PATH, json=body), 422, "prompt_not_taken")
    assert vllm.received == []
    assert lifted.client.post(PATH, json=asking(image(), {"type": "text", "text": " \n"})).status_code == 200


def test_empty_system_message_counts_as_none(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    for words in ("", " \n"):
        body = asking()
        body["messages"].insert(0, {"role": "system", "content": words})
        assert alice.client.post(PATH, json=body).status_code == 200
        assert [message["role"] for message in vllm.received[-1].body["messages"]] == ["user"]


def test_scope_and_key_are_asked_for(live: Portal, alice: Persona, people: Callable[..., Persona]) -> None:
    body = assert_problem(httpx.post(live.url + PATH, json=asking()), 401, "unauthenticated")
    assert body["error"] == {
        "message": f"{body['detail']} {body['remedy']}",
        "type": "authentication_error",
        "param": None,
        "code": "unauthenticated",
    }
    reader = people(alice.principal, scopes=(Scope.OCR, Scope.READ, Scope.PROMPT))
    assert_problem(reader.client.post(PATH, json=asking()), 403, "scope_lacking")


def test_other_engines_and_models_are_refused_with_those_that_are_offered(live: Portal, alice: Persona) -> None:
    refused = assert_problem(alice.client.post(PATH, json=asking(model="fake")), 422, "task_unavailable")
    assert "vllm, hunyuan" in refused["remedy"]
    assert_problem(alice.client.post(PATH, json=asking(model="gpt-5")), 422, "unknown_model")


def test_openai_client_sees_code_message_and_status(live: Portal, alice: Persona) -> None:
    with client_of(live, alice) as client:
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            client.chat.completions.create(model="gpt-5", messages=messages())
        assert refused.value.code == "unknown_model"
        assert "There is no engine or model" in refused.value.message
        limit_tenant(live.services.database, alice.principal.tenant_id, pages_per_day=0)
        with pytest.raises(openai.RateLimitError) as over:
            client.chat.completions.create(model="default", messages=messages())
    assert over.value.code == "quota_exhausted"
    assert over.value.response.headers["X-RateLimit-Resource"] == "pages_per_day"
    assert int(over.value.response.headers["Retry-After"]) > 0


def test_members_share_the_tenants_quota_and_others_do_not(
    live: Portal, alice: Persona, bob: Persona, charlie: Persona, people: Callable[..., Persona]
) -> None:
    bob, charlie = (people(each.principal, scopes=(Scope.CHAT,)) for each in (bob, charlie))
    limit_tenant(live.services.database, alice.principal.tenant_id, pages_per_day=1)
    assert bob.client.post(PATH, json=asking()).status_code == 200
    refused = assert_problem(alice.client.post(PATH, json=asking()), 429, "quota_exhausted")
    assert (refused["limit"], refused["used"]) == ("pages_per_day", 1)
    assert charlie.client.post(PATH, json=asking()).status_code == 200
    assert entries(live, alice) == CHARGED
    assert entries(live, charlie) == CHARGED


@pytest.mark.parametrize(
    ("field", "value"),
    [("tools", []), ("priority", -5), ("mm_processor_kwargs", {}), ("x" * 500, 1), ("response_format", {})],
)
def test_unknown_field_is_named(live: Portal, alice: Persona, field: str, value: Any) -> None:
    refused = assert_problem(alice.client.post(PATH, json=asking(**{field: value})), 422, "option_not_offered")
    assert field[:60] in refused["detail"]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"temperature": 3},
        {"temperature": True},
        {"top_p": 0},
        {"max_tokens": 0},
        {"max_tokens": "9"},
        {"seed": 2**63},
        {"stop": ["a"] * 5},
        {"stream": "yes"},
        {"top_logprobs": 1000},
        {"messages": []},
        {"messages": [{"role": "assistant", "content": "x"}]},
        {"messages": [{"role": "user", "content": "no image"}]},
        {"messages": [{"role": "user", "content": [image(), image("https://example.org/a.png")]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 30_000}]}]},
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
        {"messages": [{"role": "user", "content": [image()]}, {"role": "user", "content": [image()]}]},
        {"messages": [{"role": "system", "content": [image()]}, {"role": "user", "content": "x"}]},
        {"messages": {"role": "user"}},
        {"model": ["default"]},
    ],
)
def test_bad_parameter_is_refused_before_anything_is_reserved(
    live: Portal, alice: Persona, vllm: ScriptedVllm, fields: dict[str, Any]
) -> None:
    reply = alice.client.post(PATH, json=asking() | fields)
    assert reply.status_code == 422, reply.text
    assert reply.json()["error"]["message"]
    assert (entries(live, alice), vllm.received) == ([], [])


def test_max_tokens_is_lowered_to_the_profiles(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    assert alice.client.post(PATH, json=asking(max_completion_tokens=10**9, user="me", seed=7)).status_code == 200
    assert (vllm.received[-1].body["max_tokens"], vllm.received[-1].body["seed"]) == (4096, 7)
    assert "user" not in vllm.received[-1].body
    assert alice.client.post(PATH, json=asking(max_tokens=3)).status_code == 200
    assert vllm.received[-1].body["max_tokens"] == 3


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.png",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "data:image/png,raw",
        "data:image/png;base64",
        "//example.org/a.png",
        "",
    ],
)
def test_remote_and_strange_urls_are_refused(live: Portal, alice: Persona, vllm: ScriptedVllm, url: str) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image(url) if url else image(" "))), 422, "url_refused")
    assert vllm.received == []


def test_two_images_are_refused(live: Portal, alice: Persona) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image(), image())), 422, "invalid_request")


def test_url_as_a_bare_string_is_taken(live: Portal, alice: Persona, vllm: ScriptedVllm) -> None:
    assert alice.client.post(PATH, json=asking({"type": "image_url", "image_url": data_url(png())})).status_code == 200
    assert vllm.received[-1].images == [data_url(png())]


def jpeg(width_px: int = 40, height_px: int = 30) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width_px, height_px), "white").save(buffer, "JPEG", exif=b"Exif\0\0" + b"\xff\xd9" * 30_000)
    return buffer.getvalue()


def webp() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(buffer, "WEBP")
    return buffer.getvalue()


def bomb(width_px: int, height_px: int) -> bytes:
    """A PNG whose header claims so many pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n\0\0\0\x0d"
        + header
        + struct.pack(">I", zlib.crc32(header))
        + b"\0\0\0\0IEND"
        + struct.pack(">I", zlib.crc32(b"IEND"))
    )


@pytest.mark.parametrize("content", [png(), jpeg(), webp()])
def test_each_kind_of_image_is_passed_on_by_its_bytes_whatever_it_is_called(
    live: Portal, alice: Persona, vllm: ScriptedVllm, content: bytes
) -> None:
    assert alice.client.post(PATH, json=asking(image(data_url(content, "x-unknown")))).status_code == 200
    kind = {b"\x89": "png", b"\xff": "jpeg", b"R": "webp"}[content[:1]]
    assert vllm.received[-1].images == [data_url(content, kind)]


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "file_empty"),
        (b"%PDF-1.7", 415, "file_type_unknown"),
        (b"GIF89a" + b"\0" * 50, 415, "file_type_unknown"),
        (b"<svg/>", 415, "file_type_unknown"),
        (bomb(60_000, 60_000), 422, "too_many_pixels"),
        (bomb(2**31, 2**31), 422, "too_many_pixels"),
        (bomb(0, 5), 422, "file_corrupt"),
        (png()[:-20], 422, "file_corrupt"),
        (png()[:20], 422, "file_corrupt"),
        (png()[:16] + b"\xff\xff" + png()[18:], 422, "file_corrupt"),
        (jpeg()[:-400], 422, "file_corrupt"),
        (b"\xff\xd8\xff\xe0\0\0", 422, "file_corrupt"),
        (b"\xff\xd8" + b"\xff" * 5000, 422, "file_corrupt"),
        (webp()[:-5], 422, "file_corrupt"),
        (b"RIFF\x10\0\0\0WEBPVP9 " + b"\0" * 20, 422, "file_corrupt"),
        (b"\xff" * (2**20 + 1), 413, "file_too_large"),
    ],
)
def test_hostile_image_is_refused_without_asking_the_engine(
    live: Portal, alice: Persona, vllm: ScriptedVllm, content: bytes, status: int, code: str
) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image(data_url(content)))), status, code)
    assert (entries(live, alice), vllm.received) == ([], [])
    assert_idle(live)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"null", b'"x"', b"[" * 100_000, b'{"model": ' + b'{"a":' * 20_000, b"\xff\xfe{}"]
)
def test_hostile_body_is_refused(live: Portal, alice: Persona, content: bytes) -> None:
    reply = alice.client.post(PATH, content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 422), reply.text
    assert reply.json()["error"]["message"]
    assert_idle(live)


def test_broken_base64_is_refused(live: Portal, alice: Persona) -> None:
    assert_problem(alice.client.post(PATH, json=asking(image("data:image/png;base64,!!!!"))), 422, "file_corrupt")
    assert_idle(live)


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


def test_no_model_is_offered_when_no_engine_is_on_vllm() -> None:
    with pytest.raises(TaskUnavailable, match="none is configured"):
        chosen(Engines([FakeEngine()]), "default")


def _run(script: list[str], folder: Path, **environ: str) -> str:
    (folder / "scan.png").write_bytes(png())
    environ = {"PATH": os.environ["PATH"], **environ}
    done = subprocess.run(script, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_of_the_docs_reads_a_page(live: Portal, alice: Persona, tmp_path: Path) -> None:
    page = httpx.get(f"{live.url}/docs").text
    found = re.search(r'<pre class="openai" tabindex="0"><code>(.*?)</code></pre>', page, re.DOTALL)
    assert found is not None
    script = f"KEY = {alice.key!r}\n{html.unescape(found[1])}"
    assert _run([sys.executable, "-c", script], tmp_path) == "Total 9.00\n"


def test_lines_of_the_readme_run_as_printed(live: Portal, alice: Persona, tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("### OpenAI's clients")[2].partition("\n## ")[0]
    [python] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    [shell] = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    script = f"KEY = {alice.key!r}\n{python}".replace("http://127.0.0.1:7860", live.url)
    assert _run([sys.executable, "-c", script], tmp_path) == "Total 9.00"
    said = _run(["bash", "-euc", shell], tmp_path, KEY=alice.key, URL=live.url)
    assert json.loads(said)["choices"][0]["message"]["content"] == "Total 9.00"
