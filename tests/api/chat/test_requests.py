"""POST /v1/chat/completions: OpenAI's own client works by changing address and key, and what cannot be is refused.

What came back, what vLLM was sent, and what the ledger says.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from portal.domain import Scope
from portal.door.offer import chosen
from portal.engine.fakes import FakeEngine
from portal.errors import TaskUnavailable
from portal.jobs.context import Engines
from tests.api.chat import CHARGED, PATH, asking, assert_idle, client_of, data_url, entries, image, messages
from tests.api.conftest import Persona, Portal, assert_problem, png
from tests.engine.vllm_bench import HUNYUAN
from tests.ledger import limit_tenant
from tests.running_portal import ROOT
from tests.scripted_vllm import LIGHTON, ScriptedVllm, says

TEXT = "提取图中的文字。"


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
        limit_tenant(live.services.database, alice.principal.tenant_id, pages_per_day=1)
        client.chat.completions.create(model="default", messages=messages())
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
    "content", [b"", b"{", b"[1]", b"null", b'"x"', b"[" * 100_000, b'{"model": ' + b'{"a":' * 20_000, b"\xff\xfe{}"]
)
def test_hostile_body_is_refused(live: Portal, alice: Persona, content: bytes) -> None:
    reply = alice.client.post(PATH, content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 422), reply.text
    assert reply.json()["error"]["message"]
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
