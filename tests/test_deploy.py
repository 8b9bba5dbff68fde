"""What deploy/ says of the portal agrees with the portal: settings exist, and services write only where they may."""

from __future__ import annotations

import re

import pytest

from portal import settings
from tests.running_portal import ROOT

SYSTEMD = ROOT / "deploy" / "systemd"


def _directives(service: str) -> dict[str, str]:
    lines = (SYSTEMD / f"{service}.service").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines) if name.isalpha()}


def _environment(service: str) -> dict[str, str]:
    lines = re.findall(r"^Environment=(.*)$", (SYSTEMD / f"{service}.service").read_text(), re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def test_portal_takes_the_example_settings_when_all_of_them_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    example = (SYSTEMD / "portal.env.example").read_text()
    given = dict(re.findall(r"^#?(PORTAL_[A-Z_]+)=(.*)$", example, re.MULTILINE))
    for name, value in {**given, **_environment("ocr-portal")}.items():
        monkeypatch.setenv(name, value)
    loaded = settings.load()
    assert loaded.server.public_url == given["PORTAL_PUBLIC_URL"]
    assert str(loaded.store.data_dir) == f"/var/lib/{_directives('ocr-portal')['StateDirectory']}"


def test_every_cache_of_the_fleet_lies_where_its_service_may_write() -> None:
    folder = f"/var/cache/{_directives('ocr-fleet')['CacheDirectory']}"
    caches = _environment("ocr-fleet")
    assert {"XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR"} <= caches.keys()
    assert {name for name, path in caches.items() if not f"{path}/".startswith(f"{folder}/")} == set()
