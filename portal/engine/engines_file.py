"""PORTAL_ENGINES_FILE: the vLLM engines as TOML, each mistake named with its engine and what to do.

    [[engine]]
    name = "lighton"                       # what people choose
    url = "http://10.0.0.5:8000/v1"        # a vLLM, or a router in front of several
    model = "lightonai/LightOnOCR-2-1B"    # as --served-model-name
    profile = "lightonocr-2"               # told by the model's name when left out
    key_file = "/run/secrets/vllm"         # no key when left out
    slots = 32                             # pages at once, ≤ --max-num-seqs of all instances together
    scores = false                         # ask for confidence
    fallback = "hunyuan"                   # reads a page that loops here
    fields_with = "qwen"                   # picks the fields of pages read here
    boxes_with = "hunyuan"                 # its lines give those values their boxes; "off" for none
    first_token_seconds = 60
    silence_seconds = 20

An unknown key is refused, so that no typo passes for a setting.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from portal.engine.profiles import PROFILES, profile_for
from portal.engine.profiles.base import Profile
from portal.engine.vllm.options import DEFAULT_SLOTS, NO_BOXES, ServerOptions, VllmOptions
from portal.errors import SettingsError

RESERVED: Final = frozenset({"default", "embedded", NO_BOXES})
_TEXTS: Final = ("name", "url", "model", "profile", "key_file", "fallback", "fields_with", "boxes_with")
_NUMBERS: Final = {"slots": (1, 1024), "first_token_seconds": (1, 3600), "silence_seconds": (1, 3600)}
_KEYS: Final = (*_TEXTS, *_NUMBERS, "scores")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_URL = re.compile(r"https?://[^\s/@?#]+(/[^\s?#]*)?")


def read_engines_file(path: Path) -> tuple[VllmOptions, ...]:
    """The engines in the order of the file, at least one. Raises SettingsError."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(
            f"cannot be read: {error.strerror}", "Let the portal's user read it, or correct the path."
        ) from error
    except UnicodeDecodeError:
        raise _wrong("is not UTF-8 text", "Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise _wrong(f"is not TOML: {error}", "Correct that line.") from None
    tables = content.get("engine")
    unknown = next((key for key in content if key != "engine"), None)
    if unknown is not None:
        raise _wrong(f"has an unknown key '{unknown}'", "Each engine is a table [[engine]]; nothing else goes in.")
    if not isinstance(tables, list) or not tables:
        raise _wrong("names no engine", "Write a table [[engine]] with name, url and model for each.")
    engines = tuple(_engine(table, f"engine {number}") for number, table in enumerate(tables, start=1))
    _refuse_doubles(engines)
    return engines


def server_options(url: str, model: str, api_key: SecretStr | None, *, setting: str) -> ServerOptions:
    """A server by its address and model. Raises SettingsError naming `setting` when they are not one."""
    if not _URL.fullmatch(url):
        raise SettingsError(
            f"{setting} is no address of a server.",  # not shown: there may be a password in it
            remedy="Write it like http://10.0.0.5:8000/v1, without user, password or query.",
        )
    if not model.strip():
        raise SettingsError(f"{setting} needs a model.", remedy="Name the model as vLLM's --served-model-name does.")
    key = "" if api_key is None else api_key.get_secret_value()
    if not key.isprintable() or not key.isascii():
        raise SettingsError(
            f"{setting}: its key has characters that no HTTP header takes.", remedy="Copy the key again, alone."
        )
    return ServerOptions(url=url.rstrip("/"), model=model.strip(), api_key=api_key)


def _engine(table: Any, place: str) -> VllmOptions:
    if not isinstance(table, dict):
        raise _wrong(f"{place} is no table", "Write [[engine]] and its keys below.")
    name = table.get("name")
    place = f"{place} ({name})" if isinstance(name, str) else place
    _refuse_unknown_keys(table, place)
    text = {key: _text(table, key, place) for key in _TEXTS if key in table}
    for key in ("name", "url", "model"):
        if key not in text:
            raise _wrong(f"{place} has no '{key}'", f'Add a line like: {key} = "{_EXAMPLES[key]}"')
    numbers = {key: _number(table, key, place) for key in _NUMBERS if key in table}
    api_key = _key(text["key_file"], place) if "key_file" in text else None
    server = server_options(text["url"], text["model"], api_key, setting=f"PORTAL_ENGINES_FILE: {place}, url")
    return VllmOptions(
        name=_checked_name(text["name"], place),
        server=replace(
            server,
            first_token_seconds=numbers.get("first_token_seconds", server.first_token_seconds),
            silence_seconds=numbers.get("silence_seconds", server.silence_seconds),
        ),
        profile=_profile(text, place),
        slots=int(numbers.get("slots", DEFAULT_SLOTS)),
        asks_scores=_flag(table, "scores", place),
        fallback=text.get("fallback"),
        fields_with=text.get("fields_with"),
        boxes_with=text.get("boxes_with"),
    )


_EXAMPLES: Final = {"name": "lighton", "url": "http://10.0.0.5:8000/v1", "model": "lightonai/LightOnOCR-2-1B"}


def _refuse_unknown_keys(table: Mapping[str, Any], place: str) -> None:
    unknown = next((key for key in table if key not in _KEYS), None)
    if unknown is None:
        return
    close = difflib.get_close_matches(unknown, _KEYS, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    raise _wrong(f"{place} has an unknown key '{_shown(unknown)}'", f"{hint}It takes: {', '.join(_KEYS)}.")


def _text(table: Mapping[str, Any], key: str, place: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise _wrong(f"{place}: '{key}' is no text", f'Write it in quotes, like: {key} = "…"')
    return value.strip()


def _number(table: Mapping[str, Any], key: str, place: str) -> float:
    value, (lowest, highest) = table[key], _NUMBERS[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
        raise _wrong(f"{place}: '{key}' is no number from {lowest} to {highest}", f"Write it like: {key} = {lowest}")
    return float(value)


def _flag(table: Mapping[str, Any], key: str, place: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise _wrong(f"{place}: '{key}' is neither true nor false", f"Write it like: {key} = true")
    return value


def _key(path: str, place: str) -> SecretStr:
    try:
        key = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise _wrong(
            f"{place}: key_file cannot be read", "Write the key into that file and let the portal's user read it."
        ) from None
    if not key or not key.isprintable() or not key.isascii():
        raise _wrong(f"{place}: key_file holds no key", "Write the key alone on its first line.")
    return SecretStr(key)


def _profile(text: Mapping[str, str], place: str) -> Profile:
    name = text.get("profile")
    if name is None:
        return profile_for(text["model"])
    if name not in PROFILES:
        raise _wrong(f"{place}: there is no profile '{_shown(name)}'", f"Use one of: {', '.join(PROFILES)}.")
    return PROFILES[name]


def _checked_name(name: str, place: str) -> str:
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise _wrong(
            f"{place}: '{_shown(name)}' cannot be a name",
            "Use small letters, digits, dots and dashes, at most 40; not 'default', 'embedded' or 'off'.",
        )
    return name


def _refuse_doubles(engines: tuple[VllmOptions, ...]) -> None:
    names = [engine.name for engine in engines]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise _wrong(f"has two engines named '{double}'", "Give each its own name.")


def _shown(text: str) -> str:
    return text if text.isprintable() and len(text) <= 100 else f"{text[:100]!a} …"


def _wrong(what: str, remedy: str) -> SettingsError:
    return SettingsError(f"PORTAL_ENGINES_FILE: {what}.", remedy=remedy)
