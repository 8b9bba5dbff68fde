"""The engines that the settings ask for, built: those on vLLM first, so that `default` is one of them, then embedded.

Refuses at the start what would fail later: two ways to name the same thing, a fallback or a picker of fields that is
not there, a licence that nobody accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from portal.domain import Mode
from portal.engine.base import Engine
from portal.engine.embedded import EmbeddedEngine, default_workers
from portal.engine.engines_file import read_engines_file, server_options
from portal.engine.placing import PlacingEngine, innermost
from portal.engine.profiles import PROFILES, profile_for
from portal.engine.profiles.base import LICENCE_SETTING
from portal.engine.translating import TranslatingEngine
from portal.engine.vllm.client import ChatClient
from portal.engine.vllm.engine import VllmEngine
from portal.engine.vllm.options import NO_BOXES, ServerOptions, VllmOptions
from portal.errors import SettingsError
from portal.settings import EngineSettings


def configured_engines(settings: EngineSettings) -> list[Engine]:
    """All engines, the default first. Raises SettingsError."""
    options = _options(settings)
    _require_licences(options, settings.accept_licences)
    engines: dict[str, Engine] = {each.name: VllmEngine(each) for each in options}
    if settings.embedded == "on":
        workers = settings.embedded_workers or default_workers()
        engines["embedded"] = EmbeddedEngine(workers, settings.page_seconds)
    for each in options:
        engine = engines[each.name]
        if isinstance(engine, VllmEngine):
            engine.fallback = _other(each, "fallback", each.fallback, engines)
            engine.picker = _picker(each, engines)
    seers = {each.name: _seer(each, engines) for each in options}
    return [_placing(_translating(engine, settings), seers.get(name)) for name, engine in engines.items()]


def serve_command(engine: Engine) -> str | None:
    """The `vllm serve` that the engine's profile asks for; None for an engine that is not on vLLM."""
    options = _vllm_options(engine)
    if options is None:
        return None
    return " ".join(["vllm serve", options.server.model, *(each.flag for each in options.profile.serve_flags)])


def server_of(engine: Engine) -> ServerOptions | None:
    """Where the engine's vLLM, or the router in front of several, is; None for an engine that is not on vLLM."""
    options = _vllm_options(engine)
    return None if options is None else options.server


def _vllm_options(engine: Engine) -> VllmOptions | None:
    engine = innermost(engine)
    return engine.options if isinstance(engine, VllmEngine) else None


def _options(settings: EngineSettings) -> tuple[VllmOptions, ...]:
    if settings.engines_file is not None and settings.vllm_url is not None:
        raise SettingsError(
            "Both PORTAL_ENGINES_FILE and PORTAL_VLLM_URL are set.",
            remedy="Keep one: the file for several engines, PORTAL_VLLM_URL for one.",
        )
    if settings.engines_file is not None:
        return read_engines_file(settings.engines_file)
    if settings.vllm_url is None:
        _refuse_alone("PORTAL_VLLM_URL", settings.vllm_model, settings.vllm_api_key, "PORTAL_VLLM")
        return ()
    model = settings.vllm_model or ""
    server = server_options(settings.vllm_url, model, settings.vllm_api_key, setting="PORTAL_VLLM_URL")
    return (VllmOptions(name="vllm", server=server, profile=profile_for(model)),)


def _translating(engine: Engine, settings: EngineSettings) -> Engine:
    """The engine with the text model beside it, where one is configured and can do more than the engine."""
    if settings.translate_url is None:
        _refuse_alone("PORTAL_TRANSLATE_URL", settings.translate_model, settings.translate_api_key, "PORTAL_TRANSLATE")
        return engine
    model = settings.translate_model or ""
    server = server_options(settings.translate_url, model, settings.translate_api_key, setting="PORTAL_TRANSLATE_URL")
    if isinstance(engine, VllmEngine) and engine.options.profile.writes_to_order:
        return engine
    return TranslatingEngine(engine, ChatClient("translation", server))


def _refuse_alone(url: str, model: str | None, api_key: SecretStr | None, prefix: str) -> None:
    given = [name for name, value in ((f"{prefix}_MODEL", model), (f"{prefix}_API_KEY", api_key)) if value is not None]
    if given:
        raise SettingsError(f"{given[0]} is set without {url}.", remedy=f"Set {url}, or unset {given[0]}.")


def _require_licences(options: Sequence[VllmOptions], accepted: Sequence[str]) -> None:
    codes = {each.profile.licence.code: each for each in options if each.profile.licence.code is not None}
    unknown = next((code for code in accepted if code not in _known_licences()), None)
    if unknown is not None:
        raise SettingsError(
            f"{LICENCE_SETTING}: there is no licence '{unknown}' to accept.",
            remedy=f"It takes: {', '.join(_known_licences())}.",
        )
    for code, each in codes.items():
        if code not in accepted:
            licence = each.profile.licence
            raise SettingsError(
                f"The engine {each.name} serves {each.profile.title}, whose licence ({licence.name}) must be accepted "
                f"first. {licence.limits}",
                remedy=f"Read {licence.url}; if you may use it and accept it, set {LICENCE_SETTING}={code}.",
            )


def _known_licences() -> list[str]:
    return sorted({profile.licence.code for profile in PROFILES.values() if profile.licence.code})


def _other(options: VllmOptions, key: str, name: str | None, engines: Mapping[str, Engine]) -> Engine | None:
    if name is None:
        return None
    if name == options.name or name not in engines:
        others = [other for other in engines if other != options.name]
        raise SettingsError(
            f"PORTAL_ENGINES_FILE: the {key} '{name}' of engine {options.name} is no other engine.",
            remedy=f"Use one of: {', '.join(others)}." if others else f"Leave '{key}' out: there is no other engine.",
        )
    return engines[name]


def _picker(options: VllmOptions, engines: Mapping[str, Engine]) -> Engine | None:
    other = _other(options, "fields_with", options.fields_with, engines)
    if isinstance(other, VllmEngine) and not other.options.profile.picks_fields:
        raise SettingsError(
            f"PORTAL_ENGINES_FILE: fields_with of engine {options.name} names {options.fields_with}, and "
            f"{other.options.profile.title} cannot be asked for fields.",
            remedy="Name an engine with HunyuanOCR 1.0 or an instruction-following model, or the embedded one.",
        )
    return other


def _seer(options: VllmOptions, engines: Mapping[str, Engine]) -> Engine | None:
    """The engine whose lines give values their boxes; by itself the embedded one, where values would have none."""
    if options.boxes_with == NO_BOXES:
        return None
    if options.boxes_with is None:
        has_boxes = Mode.SPOTTING in options.profile.modes or options.fields_with == "embedded"
        return None if has_boxes else engines.get("embedded")
    other = _other(options, "boxes_with", options.boxes_with, engines)
    if isinstance(other, VllmEngine) and Mode.SPOTTING not in other.capability.modes:
        raise SettingsError(
            f"PORTAL_ENGINES_FILE: boxes_with of engine {options.name} names {options.boxes_with}, and "
            f"{other.options.profile.title} reads no lines with boxes.",
            remedy="Name the embedded engine or one with HunyuanOCR, or 'off'.",
        )
    return other


def _placing(engine: Engine, seer: Engine | None) -> Engine:
    return engine if seer is None else PlacingEngine(engine, seer)
