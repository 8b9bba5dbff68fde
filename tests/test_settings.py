"""Settings that refuse: unknown names, bad values, secrets twice; and never show a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal import settings
from portal.children import ChildLimits, ChildPool
from portal.errors import SettingsError


def test_defaults_run_a_laptop_when_nothing_is_set() -> None:
    loaded = settings.load()
    assert (loaded.server.host, loaded.server.port) == ("127.0.0.1", 7860)
    assert loaded.database_url == "sqlite:///data/portal.db"
    assert (loaded.engine.embedded, loaded.accounts.registration) == ("on", None)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PORTAL_PROT", "80", "Did you mean PORTAL_PORT"),
        ("PORTAL_COLOUR", "red", "README lists"),
        ("PORTAL_SERVICE_HOST", "10.0.0.1", "enableServiceLinks"),
        ("PORTAL_PORT_7860_TCP_ADDR", "10.0.0.1", "enableServiceLinks"),
        ("PORTAL_PORT", "tcp://10.0.0.1:7860", "enableServiceLinks"),
        ("PORTAL_PORT", "many", "README lists"),
        ("PORTAL_REGISTRATION", "opne", "README lists"),
        ("PORTAL_HOST_FILE", "/etc/hostname", "README lists"),
        ("PORTAL_TIME_ZONE", "Mars/Olympus", "README lists"),
        ("PORTAL_FLEET_URL", "run/control.sock", "README lists"),
        ("PORTAL_FLEET_URL", "http://box:70000", "README lists"),
        ("PORTAL_FLEET_URL", "http://admin:hunter2@box:9000", "README lists"),
        ("PORTAL_FLEET_URL", "http://box:9000/control", "README lists"),
        ("PORTAL_FLEET_TOKEN", "t" * 40, "README lists"),
    ],
)
def test_start_is_refused_with_name_and_remedy_when_a_variable_is_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        settings.load()
    assert name in refused.value.message
    assert words in refused.value.remedy


def test_secret_is_read_from_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("PORTAL_SECRET_FILE", str(tmp_path / "secret"))
    secret = settings.load().accounts.secret
    assert secret is not None
    assert secret.get_secret_value() == "from a file"


def test_start_is_refused_when_a_secret_file_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_SECRET_FILE", "/nowhere/secret")
    with pytest.raises(SettingsError, match="PORTAL_SECRET_FILE"):
        settings.load()


def test_start_is_refused_without_its_bytes_when_a_secret_file_is_not_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"hunter2\xff")
    monkeypatch.setenv("PORTAL_SECRET_FILE", str(tmp_path / "secret"))
    with pytest.raises(SettingsError, match="PORTAL_SECRET_FILE") as refused:
        settings.load()
    assert "UTF-8" in refused.value.message
    assert "hunter2" not in repr(refused.value.__cause__)


def test_no_setting_is_inherited_when_children_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_SECRET", "hunter2hunter2")
    monkeypatch.setenv("PORTAL_DATABASE_URL", "postgresql://u:hunter2hunter2@h/d")
    monkeypatch.setenv("PORTAL_ADMIN_PASSWORD_FILE", "/run/secrets/password")
    settings.forget_environment()
    children = ChildPool(1, ChildLimits(memory_bytes=2**30, cpu_seconds=10))
    inherited = children.run(Path.read_bytes, Path("/proc/self/environ"), wall_seconds=10)
    children.close()
    assert b"PATH=" in inherited
    assert b"PORTAL_" not in inherited


def test_start_is_refused_when_a_secret_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_SECRET", "one")
    monkeypatch.setenv("PORTAL_SECRET_FILE", "two")
    with pytest.raises(SettingsError, match="Both PORTAL_SECRET and PORTAL_SECRET_FILE"):
        settings.load()


def test_no_secret_is_shown_when_settings_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_SECRET", "hunter2hunter2")
    monkeypatch.setenv("PORTAL_ADMIN_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("PORTAL_DATABASE_URL", "postgresql://u:hunter2hunter2@h/d")
    loaded = settings.load()
    assert "hunter2" not in repr(loaded) + str(list(loaded.rows()))
    monkeypatch.setenv("PORTAL_VLLM_URL", "http://u:hunter2/@a@10.0.0.5:8000/v1?key=hunter2")
    monkeypatch.setenv("PORTAL_TRANSLATE_URL", "u:hunter2@h/v1")
    shown = dict(settings.load().rows())
    assert shown["PORTAL_VLLM_URL"] == "http://********10.0.0.5:8000/v1********"
    assert shown["PORTAL_TRANSLATE_URL"] == "********h/v1"
    assert shown["PORTAL_ADMIN_EMAIL"] == "admin@localhost"
    assert loaded.database_url == "postgresql+psycopg://u:hunter2hunter2@h/d"


def test_proxies_are_networks_when_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_TRUSTED_PROXIES", "10.0.0.0/8, 127.0.0.1")
    assert settings.load().server.trusted_proxies == ("10.0.0.0/8", "127.0.0.1/32")


def test_settings_cannot_be_changed_after_the_start() -> None:
    with pytest.raises(Exception, match="frozen"):
        settings.load().server.port = 1


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/run/ocr-fleet/control.sock", "/run/ocr-fleet/control.sock"),
        ("unix:///run/ocr-fleet/control.sock", "/run/ocr-fleet/control.sock"),
        ("https://gpu-box:9443/", "https://gpu-box:9443"),
        ("http://[fd00::5]:9000", "http://[fd00::5]:9000"),
    ],
)
def test_fleet_is_a_socket_or_a_url_with_its_token(monkeypatch: pytest.MonkeyPatch, given: str, kept: str) -> None:
    monkeypatch.setenv("PORTAL_FLEET_URL", given)
    if kept.startswith("http"):
        with pytest.raises(SettingsError, match="PORTAL_FLEET_TOKEN"):
            settings.load()
        monkeypatch.setenv("PORTAL_FLEET_TOKEN", "t" * 40)
    loaded = settings.load()
    assert loaded.fleet.fleet_url == kept
    assert "t" * 40 not in str(list(loaded.rows()))


@pytest.mark.parametrize("token", ["short", "t" * 40 + "\nX-Other: header", "t" * 20 + " " + "t" * 20, "ü" * 40])
def test_token_that_no_header_takes_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("PORTAL_FLEET_URL", "http://box:9000")
    monkeypatch.setenv("PORTAL_FLEET_TOKEN", token)
    with pytest.raises(SettingsError, match="PORTAL_FLEET_TOKEN") as refused:
        settings.load()
    assert token not in f"{refused.value.message} {refused.value.remedy}"
