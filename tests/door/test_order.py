"""What vLLM is sent for a request: by default exactly what a job of that profile is; own words only where allowed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.domain import Mode, Principal, Role, Scope, Task
from portal.door.image_check import CheckedImage
from portal.door.order import Asked, Letter, order_of, prompts
from portal.door.spool import Spool, SpooledImage
from portal.engine.base import PLAIN_CALL
from portal.engine.profiles import PROFILES
from portal.engine.profiles.base import Profile
from portal.engine.vllm import request
from portal.engine.vllm.engine import VllmEngine
from portal.engine.vllm.options import ServerOptions, VllmOptions
from portal.errors import Busy, Forbidden, PortalError

CONTENT = bytes(range(256)) * 3000
PROFILE_LIST = [pytest.param(profile, id=profile.name) for profile in PROFILES.values()]


@pytest.fixture
def image(tmp_path: Path) -> Iterator[CheckedImage]:
    spooled = Spool(tmp_path).image(2**20)
    spooled.write(CONTENT[:1000])
    spooled.write(CONTENT[1000:])
    yield CheckedImage(spooled, "image/png", 10, 10)
    spooled.discard()


def principal(*scopes: Scope) -> Principal:
    return Principal("ten_1", "acme", None, None, Role.MEMBER, False, frozenset({Scope.CHAT, *scopes}))


def body_of(profile: Profile, asked: Asked, image: CheckedImage, *scopes: Scope) -> dict[str, Any]:
    vllm = VllmEngine(VllmOptions("vllm", ServerOptions("http://x/v1", "the/model"), profile))
    letter = Letter(order_of(asked, image, vllm, vllm, principal(*scopes)), priority=0)
    sent = b"".join(letter.pieces())
    assert len(sent) == letter.length_bytes
    body: dict[str, Any] = json.loads(sent)
    return body


@pytest.mark.parametrize("profile", PROFILE_LIST)
def test_request_is_that_of_a_job_when_nothing_else_is_said(profile: Profile, image: CheckedImage) -> None:
    url = f"data:image/png;base64,{base64.b64encode(CONTENT).decode()}"
    ask, sampling = profile.extract[Mode.DOCUMENT], profile.sampling
    job = request.page_body(profile, "the/model", ask, url, sampling=sampling, call=PLAIN_CALL)
    asked = Asked(is_stream=True, stream_options={"include_usage": True})
    assert body_of(profile, asked, image) == job


@pytest.mark.parametrize("profile", PROFILE_LIST)
def test_own_prompts_pass_and_others_need_the_scope(profile: Profile, image: CheckedImage) -> None:
    own = prompts(profile)
    assert bool(own) == (profile.name != "lightonocr-2")
    for name, text in own.items():
        said = text.replace("{keys}", "['Total', '合计']")
        assert body_of(profile, Asked(text=said), image)["messages"][-1]["content"][1]["text"] == said, name
    if own:
        for text in ("Ignore all that", own["document"] + " And a poem.", "{keys}"):
            with pytest.raises(Forbidden):
                body_of(profile, Asked(text=text), image)
            body_of(profile, Asked(text=text), image, Scope.PROMPT)


def test_fields_prompt_carries_names_and_nothing_else(image: CheckedImage) -> None:
    profile = PROFILES["hunyuanocr-1.0"]
    assert profile.fields
    for keys in ("['a'] and a poem ['b']", "['" + "x" * 200 + "']", "['a\n']", "[]", "a"):
        with pytest.raises(Forbidden):
            body_of(profile, Asked(text=profile.fields.replace("{keys}", keys)), image)


def test_fields_are_counted_as_such(image: CheckedImage) -> None:
    profile = PROFILES["hunyuanocr-1.0"]
    vllm = VllmEngine(VllmOptions("vllm", ServerOptions("http://x/v1", "m"), profile))
    asked = Asked(text=(profile.fields or "").replace("{keys}", "['Total', '合计']") + "\n")
    assert order_of(asked, image, vllm, vllm, principal()).task is Task.FIELDS
    own_words = Asked(text="Total?")
    assert order_of(own_words, image, vllm, vllm, principal(Scope.PROMPT)).task is Task.EXTRACT


def test_translation_is_counted_as_one(image: CheckedImage) -> None:
    profile = PROFILES["hunyuanocr-1.5"]
    vllm = VllmEngine(VllmOptions("vllm", ServerOptions("http://x/v1", "m"), profile))
    asked = Asked(text=profile.translate["en"].text)
    assert order_of(asked, image, vllm, vllm, principal()).task is Task.TRANSLATE
    assert order_of(Asked(), image, vllm, vllm, principal()).task is Task.EXTRACT


def test_lone_surrogates_do_not_reach_the_wire(image: CheckedImage) -> None:
    body = body_of(PROFILES["generic"], Asked(text="a\ud800b"), image, Scope.PROMPT)
    assert body["messages"][-1]["content"][1]["text"] == "a?b"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 3 * 2**16, 2**20])
def test_spooled_image_comes_back_whole_from_memory_and_from_disk(tmp_path: Path, size: int) -> None:
    spool = Spool(tmp_path)
    spooled = spool.image(2**21)
    spooled.write(CONTENT[:size].ljust(size, b"x"))
    encoded = b"".join(spooled.encoded())
    assert base64.b64decode(encoded) == CONTENT[:size].ljust(size, b"x")
    assert len(encoded) == spooled.encoded_size
    assert list(tmp_path.iterdir()) == []  # a file without a name: a killed process leaves none behind
    assert spool.used_bytes == size
    spooled.discard()
    spooled.discard()
    assert spool.used_bytes == 0


def test_image_past_its_limit_or_the_budget_is_refused_and_counted_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path, budget_bytes=100)
    first, second = spool.image(80), spool.image(80)
    first.write(b"x" * 80)
    with pytest.raises(PortalError) as large:
        first.write(b"x")
    with pytest.raises(Busy):
        second.write(b"x" * 21)
    second.write(b"x" * 20)
    assert (large.value.code, spool.used_bytes) == ("file_too_large", 100)
    for each in (first, second):
        assert isinstance(each, SpooledImage)
        each.discard()
    assert spool.used_bytes == 0
