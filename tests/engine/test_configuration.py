"""Which engines the settings make, and that each mistake in them stops the start with its remedy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from portal.domain import Task
from portal.door.offer import vllm_of
from portal.engine.base import Engine
from portal.engine.configuration import configured_engines, serve_command
from portal.engine.placing import PlacingEngine, innermost
from portal.engine.vllm.engine import VllmEngine
from portal.errors import SettingsError
from portal.settings import EngineSettings

LIGHTON = """
[[engine]]
name = "lighton"
url = "http://10.0.0.5:8000/v1"
model = "lightonai/LightOnOCR-2-1B"
"""
HUNYUAN = """
[[engine]]
name = "hunyuan"
url = "http://10.0.0.6:8000/v1"
model = "tencent/HunyuanOCR"
"""


def _engines(**settings: Any) -> list[Engine]:
    engines = configured_engines(EngineSettings(embedded_workers=1, **settings))
    for engine in engines:
        asyncio.run(engine.close())
    return engines


def _names(**settings: Any) -> list[str]:
    return [engine.capability.name for engine in _engines(**settings)]


def _file(folder: Path, text: str) -> Path:
    path = folder / "engines.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_embedded_engine_is_the_only_one_when_nothing_is_set() -> None:
    assert _names() == ["embedded"]
    assert _names(embedded="off") == []


def test_vllm_is_the_default_when_the_short_form_is_set() -> None:
    settings = {"vllm_url": "http://localhost:8000/v1/", "vllm_model": "lightonai/LightOnOCR-2-1B"}
    assert _names(**settings) == ["vllm", "embedded"]
    [engine] = _engines(**settings, embedded="off")
    assert isinstance(engine, VllmEngine)
    assert engine.options.server.url == "http://localhost:8000/v1"
    assert engine.options.profile.name == "lightonocr-2"


def test_file_gives_all_it_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a-secret\n")
    text = LIGHTON + (
        f'profile = "generic"\nkey_file = "{tmp_path}/key"\nslots = 3\nscores = true\nfallback = "embedded"\n'
        'fields_with = "embedded"\n'
        "first_token_seconds = 9\nsilence_seconds = 2.5\n"
    )
    engine, embedded = _engines(engines_file=_file(tmp_path, text))
    assert isinstance(engine, VllmEngine)
    options = engine.options
    assert (options.profile.name, options.slots, options.asks_scores) == ("generic", 3, True)
    assert (options.server.first_token_seconds, options.server.silence_seconds) == (9, 2.5)
    assert options.server.api_key is not None
    assert options.server.api_key.get_secret_value() == "a-secret"
    assert engine.fallback is embedded
    assert engine.picker is embedded
    assert "a-secret" not in repr(options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[engine", "is not TOML"),
        ("", "names no engine"),
        ("engine = 3", "names no engine"),
        ("engines = 3\n" + LIGHTON, "unknown key 'engines'"),
        (LIGHTON + "slot = 3", "engine 1 (lighton) has an unknown key 'slot'"),
        (LIGHTON.replace("model =", "# "), "has no 'model'"),
        (LIGHTON.replace('"http', '"ftp'), "no address of a server"),
        (LIGHTON.replace("http://", "http://user:secret@"), "no address of a server"),
        (LIGHTON.replace('"lighton"', '"default"'), "cannot be a name"),
        (LIGHTON.replace('"lighton"', '"Light On"'), "cannot be a name"),
        (LIGHTON + "slots = 0", "'slots' is no number from 1"),
        (LIGHTON + "slots = true", "'slots' is no number from 1"),
        (LIGHTON + 'scores = "yes"', "'scores' is neither"),
        (LIGHTON + 'profile = "lighton"', "no profile 'lighton'"),
        (LIGHTON + 'key_file = "/nowhere/key"', "key_file cannot be read"),
        (LIGHTON + 'fallback = "lighton"', "is no other engine"),
        (LIGHTON + 'fallback = "hunyuan"', "is no other engine"),
        (LIGHTON + 'fields_with = "hunyuan"', "the fields_with 'hunyuan' of engine lighton is no other engine"),
        (LIGHTON + 'fields_with = "two"' + LIGHTON.replace('"lighton"', '"two"'), "cannot be asked for fields"),
        (LIGHTON + 'boxes_with = "hunyuan"', "the boxes_with 'hunyuan' of engine lighton is no other engine"),
        (LIGHTON + 'boxes_with = "two"' + LIGHTON.replace('"lighton"', '"two"'), "reads no lines with boxes"),
        (LIGHTON.replace('"lighton"', '"off"'), "cannot be a name"),
        (LIGHTON + LIGHTON, "two engines named 'lighton'"),
        (HUNYUAN, "must be accepted first. It excludes the European Union"),
    ],
)
def test_start_is_refused_when_the_file_has_a_mistake(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _engines(engines_file=_file(tmp_path, text))
    assert words in caught.value.message
    assert caught.value.remedy
    assert "secret@" not in caught.value.remedy


@pytest.mark.parametrize("url", ["http://me:hunter2@a/v1", "me:hunter2@a/v1", "http://a/v1?key=hunter2"])
def test_address_is_not_repeated_when_it_may_hold_a_password(url: str) -> None:
    for settings in ({"vllm_url": url, "vllm_model": "a"}, {"translate_url": url, "translate_model": "a"}):
        with pytest.raises(SettingsError, match="no address of a server") as refusal:
            _engines(**settings)
        assert "hunter2" not in refusal.value.message + refusal.value.remedy


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"vllm_url": "http://a/v1"}, "needs a model"),
        ({"vllm_url": "http://a/v1", "vllm_model": "a", "vllm_api_key": "k\ney"}, "no HTTP header"),
        ({"vllm_model": "a"}, "without PORTAL_VLLM_URL"),
        ({"vllm_api_key": "a"}, "without PORTAL_VLLM_URL"),
        ({"translate_model": "a"}, "without PORTAL_TRANSLATE_URL"),
        ({"translate_url": "nowhere", "translate_model": "a"}, "PORTAL_TRANSLATE_URL"),
        ({"vllm_url": "http://a/v1", "vllm_model": "a", "engines_file": "x.toml"}, "Both PORTAL_ENGINES_FILE"),
        ({"engines_file": "/nowhere/x.toml"}, "cannot be read"),
        ({"accept_licences": ("mit",)}, "no licence 'mit'"),
    ],
)
def test_start_is_refused_when_settings_do_not_fit(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        _engines(**settings)


def test_hunyuan_is_offered_with_its_notice_when_its_licence_is_accepted(tmp_path: Path) -> None:
    engine, _ = _engines(engines_file=_file(tmp_path, HUNYUAN), accept_licences=("tencent-hunyuan-community",))
    assert "Tencent is not affiliated" in (engine.capability.notice or "")
    assert engine.capability.targets == ("en", "zh")


def test_every_engine_translates_when_a_text_model_is_configured() -> None:
    engines = _engines(
        vllm_url="http://a/v1",
        vllm_model="lightonai/LightOnOCR-2-1B",
        translate_url="http://b/v1",
        translate_model="Qwen/Qwen3-8B",
    )
    for engine in engines:
        assert Task.TRANSLATE in engine.capability.tasks
        assert "de" in engine.capability.targets
        assert Task.TRANSLATE not in engine.capability.unavailable


@pytest.mark.parametrize(
    ("more", "embedded", "seer"),
    [
        ("", "on", "embedded"),
        ("", "off", None),
        ('boxes_with = "off"', "on", None),
        ('fields_with = "embedded"', "on", None),
        ('boxes_with = "hunyuan"', "on", "hunyuan"),
    ],
)
def test_values_get_boxes_from_the_engine_that_has_them(
    tmp_path: Path, more: str, embedded: str, seer: str | None
) -> None:
    text = f"{LIGHTON}{more}\n{HUNYUAN}"
    licences = ("tencent-hunyuan-community",)
    engine, spotting, *_ = _engines(engines_file=_file(tmp_path, text), accept_licences=licences, embedded=embedded)
    found = engine.seer.capability.name if isinstance(engine, PlacingEngine) else None
    assert found == seer
    assert isinstance(spotting, VllmEngine)
    assert (serve_command(engine) or "").startswith("vllm serve lightonai")
    assert vllm_of(engine) is innermost(engine)


def _version(
    folder: Path, more: str = "", *, model: str = "tencent/HunyuanOCR", other: str = "b", **settings: Any
) -> str:
    helper = LIGHTON.replace('"lighton"', '"qwen"').replace("lightonai/LightOnOCR-2-1B", f"Qwen/{other}")
    text = HUNYUAN.replace("tencent/HunyuanOCR", model) + more + helper
    engines = _engines(
        engines_file=_file(folder, text), accept_licences=("tencent-hunyuan-community",), embedded="off", **settings
    )
    return engines[0].capability.profile_version


def test_version_tells_apart_all_that_decides_how_pages_are_read(tmp_path: Path) -> None:
    ways = [
        _version(tmp_path),
        _version(tmp_path, model="tencent/HunyuanOCR-mine"),
        _version(tmp_path, "scores = true\n"),
        _version(tmp_path, 'fallback = "qwen"\n'),
        _version(tmp_path, 'fallback = "qwen"\n', other="c"),
        _version(tmp_path, 'fields_with = "qwen"\n'),
        _version(tmp_path, 'fields_with = "qwen"\n', other="c"),
        _version(tmp_path, translate_url="http://a/v1", translate_model="m"),
        _version(tmp_path, translate_url="http://a/v1", translate_model="n"),
    ]
    assert len(set(ways)) == len(ways)
    assert all(way.startswith("hunyuanocr-1.5/1-") and len(way) <= 100 for way in ways)
    assert _version(tmp_path, "slots = 3\n", other="c") == ways[0]
