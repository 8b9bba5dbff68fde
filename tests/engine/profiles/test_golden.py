"""The exact body of each request, profile by profile: what a checkpoint is sent may change only where one sees it.

After a meant change: `GOLDEN_WRITE=1 python -m pytest tests/engine/profiles/test_golden.py`, then read the difference.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from portal.domain import FieldSpec, FieldType
from portal.engine.base import Call
from portal.engine.profiles import PROFILES, profile_for
from portal.engine.profiles.base import Ask, Profile
from portal.engine.vllm.field_request import fields_body
from portal.engine.vllm.request import page_body, text_body, with_scores

GOLDEN = Path(__file__).with_name("golden")


def _asks(profile: Profile) -> dict[str, Ask]:
    extract = {f"extract-{mode}": ask for mode, ask in profile.extract.items()}
    return extract | {f"translate-{code}": ask for code, ask in profile.translate.items()}


def _body(profile: Profile, ask: Ask) -> dict[str, Any]:
    call = Call(request_id="pag_1-1", priority=3)
    return page_body(profile, "a/model", ask, "data:…", sampling=profile.sampling, call=call)


CASES = [(profile.name, name) for profile in PROFILES.values() for name in _asks(profile)]


@pytest.mark.parametrize(("profile_name", "ask_name"), CASES)
def test_request_is_the_golden_one_for_each_profile_and_task(profile_name: str, ask_name: str) -> None:
    profile = PROFILES[profile_name]
    body = _body(profile, _asks(profile)[ask_name])
    _compare(f"{profile_name}.{ask_name}", body)


@pytest.mark.parametrize("name", PROFILES)
def test_request_is_the_golden_one_when_a_loop_is_read_again(name: str) -> None:
    profile = PROFILES[name]
    _compare(f"{name}.retry-sampling", profile.retry_sampling.parameters())


def test_text_request_has_nothing_that_only_vllm_knows() -> None:
    body = text_body("a/model", "Translate.", "Rechnung", max_tokens=264)
    _compare("text", body)
    assert set(body) == {"model", "messages", "max_tokens", "temperature", "stream", "stream_options"}


def test_scores_are_asked_for_without_other_tokens() -> None:
    assert with_scores({"model": "a"}) == {"model": "a", "logprobs": True, "top_logprobs": 0}


FIELDS = (
    FieldSpec("invoice 'number'", FieldType.ID, required=True),
    FieldSpec("kind", allowed=("paid", "open"), description="as stamped"),
    FieldSpec("items", FieldType.ROWS, children=(FieldSpec("what"), FieldSpec("amount", FieldType.MONEY))),
)


@pytest.mark.parametrize("name", [name for name, profile in PROFILES.items() if profile.picks_fields])
def test_request_is_the_golden_one_for_fields(name: str) -> None:
    profile, call = PROFILES[name], Call(request_id="pag_1-1", priority=3)
    body = fields_body(profile, "a/model", FIELDS, "data:…", sampling=profile.sampling, call=call)
    _compare(f"{name}.fields", body)


def test_fields_prompt_is_the_checkpoints_own_where_it_has_one() -> None:
    assert {profile.name: profile.fields for profile in PROFILES.values() if profile.fields} == {
        "hunyuanocr-1.0": "提取图片中的: {keys} 的字段内容，并按照 JSON 格式返回。"
    }


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("lightonai/LightOnOCR-2-1B", "lightonocr-2"),
        ("lightonai/LightOnOCR-2-1B-bbox-soup", "lightonocr-2"),
        ("/models/LightOnOCR-2-1B", "lightonocr-2"),
        ("tencent/HunyuanOCR", "hunyuanocr-1.5"),
        ("/models/tencent/HunyuanOCR/v1.0", "hunyuanocr-1.0"),
        ("Qwen/Qwen3-VL-8B-Instruct", "generic"),
    ],
)
def test_profile_is_told_by_the_models_name(model: str, name: str) -> None:
    assert profile_for(model).name == name


def test_each_profile_names_its_sources_and_flags() -> None:
    for profile in PROFILES.values():
        assert profile.sources
        assert all(flag.flag.startswith("--") and flag.why for flag in profile.serve_flags)
        assert profile.licence.name


def _compare(name: str, body: dict[str, Any]) -> None:
    path = GOLDEN / f"{name}.json"
    if os.environ.get("GOLDEN_WRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(body, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    assert body == json.loads(path.read_text(encoding="utf-8"))
