"""Frozen, grouped settings from PORTAL_* variables: read once at the start, passed down, never re-read.

Each variable `PORTAL_X` is the field `x` of exactly one group. Secrets may come as `PORTAL_X_FILE`. An
unknown `PORTAL_*` variable stops the start and is named, so that a typo never passes for a setting.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError as SourceError

from portal.errors import SettingsError

PREFIX = "PORTAL_"
KUBERNETES_REMEDY = (
    "Kubernetes injects such variables for a Service named 'portal': set 'enableServiceLinks: false' on the pod, "
    "or rename the Service."
)


class _FileSource(EnvSettingsSource):
    """Reads `PORTAL_X_FILE` for each secret field `x` (mounted secrets of Docker and Kubernetes)."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        if not _is_secret(field):
            return None, field_name, False
        path = self.env_vars.get(f"{PREFIX}{field_name}_FILE".lower())
        if path is None:
            return None, field_name, False
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n"), field_name, False
        except OSError as error:
            raise SettingsError(
                f"{PREFIX}{field_name.upper()}_FILE names a file that cannot be read: {error.strerror}.",
                remedy="Mount the file and let the portal's user read it, or unset the variable.",
            ) from error
        except UnicodeDecodeError:
            raise SettingsError(  # without its cause, which carries the file's bytes
                f"{PREFIX}{field_name.upper()}_FILE names a file that is not UTF-8 text.",
                remedy="Write the secret as text, for example the output of: openssl rand -hex 32",
            ) from None


def _is_secret(field: FieldInfo) -> bool:
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _network(value: str) -> str:
    return value if value == "*" else str(ipaddress.ip_network(value, strict=False))


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be an IANA time zone such as Europe/Berlin") from None
    return value


_SOCKET_PATH = re.compile(r"/[^\0?#]*[^\0?#/]")
_CONTROL_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(\d{1,5}))?")
_HIGHEST_PORT = 65535
_SHORTEST_FLEET_TOKEN = 32  # portal/serving/control_server.py takes no shorter one


def _control_address(value: str) -> str:
    address = value.removeprefix("unix://").rstrip("/")
    url = _CONTROL_URL.fullmatch(address)
    is_url = url is not None and 0 < int(url[1] or 1) <= _HIGHEST_PORT
    if not is_url and _SOCKET_PATH.fullmatch(address) is None:
        raise ValueError(
            "must be the whole path of the fleet's socket (/run/ocr-fleet/control.sock), or http:// or https:// with "
            "a host and a port, without user, path and query"
        )
    return address


class _Group(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True, enable_decoding=False
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls)


class ServerSettings(_Group):
    """Where the portal listens and how it is reached."""

    host: str = "127.0.0.1"
    port: int = Field(7860, ge=0, le=65535)
    public_url: str | None = Field(None, pattern=r"^https?://[^/]+$")
    trusted_proxies: Annotated[tuple[Annotated[str, BeforeValidator(_network)], ...], BeforeValidator(_split)] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    @property
    def address(self) -> str:
        """Where the portal is reached, without a slash at the end: its public URL, else where it listens."""
        if self.public_url:
            return self.public_url
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class StoreSettings(_Group):
    """Where rows and blobs lie."""

    data_dir: Path = Path("data")
    database_url: SecretStr | None = None


class AccountSettings(_Group):
    """Who may come in."""

    registration: Literal["open", "invite", "closed"] | None = None
    admin_email: str = "admin@localhost"
    admin_password: SecretStr | None = None
    secret: SecretStr | None = None
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    session_days: int = Field(14, ge=1, le=365)


class IntakeSettings(_Group):
    """What an upload may be."""

    max_file_bytes: int = Field(100 * 2**20, ge=1024)
    max_document_pages: int = Field(1000, ge=1)
    max_page_pixels: int = Field(50_000_000, ge=1_000_000)
    max_job_files: int = Field(100, ge=1)
    sandbox_seconds: int = Field(30, ge=1)
    sandbox_memory_bytes: int = Field(2 * 2**30, ge=512 * 2**20)


class EngineSettings(_Group):
    """What reads the pages, and how much work may wait for it."""

    embedded: Literal["on", "off"] = "on"
    embedded_workers: int | None = Field(None, ge=1, le=64)
    page_seconds: int = Field(120, ge=1)
    max_backlog_pages: int = Field(2000, ge=1)
    engines_file: Path | None = None
    vllm_url: str | None = None
    vllm_model: str | None = None
    vllm_api_key: SecretStr | None = None
    translate_url: str | None = None
    translate_model: str | None = None
    translate_api_key: SecretStr | None = None
    accept_licences: Annotated[tuple[str, ...], BeforeValidator(_split)] = ()


class FleetSettings(_Group):
    """Where the fleet's control answers: a path is its Unix socket, a URL needs the token of its `token_file`."""

    fleet_url: Annotated[str, AfterValidator(_control_address)] | None = None
    fleet_token: SecretStr | None = Field(None, validate_default=True)

    @field_validator("fleet_token")
    @classmethod
    def _goes_with_its_address(cls, token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        url = info.data.get("fleet_url")
        if token is None:
            if url is not None and not url.startswith("/"):
                raise ValueError("must be set where PORTAL_FLEET_URL is a URL: it is what the fleet's token_file holds")
            return None
        if url is None or url.startswith("/"):
            raise ValueError("is for a PORTAL_FLEET_URL that is a URL; a socket is private by its folder")
        text = token.get_secret_value()
        if len(text) < _SHORTEST_FLEET_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError(f"must be {_SHORTEST_FLEET_TOKEN} or more characters that a header takes, without spaces")
        return token


@dataclass(frozen=True)
class Settings:
    """All groups. Build it with `load`."""

    server: ServerSettings
    store: StoreSettings
    accounts: AccountSettings
    intake: IntakeSettings
    engine: EngineSettings
    fleet: FleetSettings = field(default_factory=FleetSettings)

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL with its driver; SQLite in the data folder unless PORTAL_DATABASE_URL is set."""
        given = self.store.database_url
        if given is None:
            return f"sqlite:///{self.store.data_dir / 'portal.db'}"
        url = given.get_secret_value()
        for scheme in ("postgres://", "postgresql://"):
            if url.startswith(scheme):
                return "postgresql+psycopg://" + url.removeprefix(scheme)
        return url

    def rows(self) -> Iterator[tuple[str, str]]:
        """(variable, effective value) of each setting, secrets and logins masked: what `app.py check` prints."""
        for group in (self.server, self.store, self.accounts, self.intake, self.engine, self.fleet):
            for name, value in group:
                shown = _shown(value)
                is_address = name.endswith("_url")
                yield PREFIX + name.upper(), _SECRET_OF_ADDRESS.sub(r"\1********", shown) if is_address else shown


# An engine's address with a password or a query is refused (portal/engine/engines_file.py), but shown before.
_SECRET_OF_ADDRESS = re.compile(r"^(\w+://)?.*@|[?#].*", re.DOTALL)


def _shown(value: object) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, tuple):
        return ",".join(value) or "(none)"
    return str(value)


_GROUPS: tuple[type[_Group], ...] = (
    ServerSettings,
    StoreSettings,
    AccountSettings,
    IntakeSettings,
    EngineSettings,
    FleetSettings,
)


def load() -> Settings:
    """Reads and checks the environment. Raises SettingsError naming the variable and what to do."""
    _refuse_unknown(os.environ)
    try:
        return Settings(
            ServerSettings(), StoreSettings(), AccountSettings(), IntakeSettings(), EngineSettings(), FleetSettings()
        )
    except SourceError as error:
        if isinstance(error.__cause__, SettingsError):
            raise error.__cause__ from None
        raise
    except ValidationError as error:
        raise _explained(error, os.environ) from None


def forget_environment() -> None:
    """Takes all PORTAL_* variables out of this process's environment, so that no child process inherits a secret.

    They are read once, so nobody misses them. The system goes on showing the process's own first environment to
    its user (`/proc/<pid>/environ`): secrets from files are not in it.
    """
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]


def _known() -> dict[str, FieldInfo]:
    return {PREFIX + name.upper(): field for group in _GROUPS for name, field in group.model_fields.items()}


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = _known()
    secrets = {f"{name}_FILE" for name, field in known.items() if _is_secret(field)}
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        if name in secrets and environ.get(name.removesuffix("_FILE")):
            raise SettingsError(f"Both {name.removesuffix('_FILE')} and {name} are set.", remedy="Keep one of the two.")
        if name not in known and name not in secrets:
            raise _unknown(name, environ[name], [*known, *secrets])


def _unknown(name: str, value: str, names: list[str]) -> SettingsError:
    if _is_from_kubernetes(name, value):
        return SettingsError(f"Unknown setting {name}.", remedy=KUBERNETES_REMEDY)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    return SettingsError(
        f"Unknown setting {name}.", remedy=f"{hint}Unset it; the README lists every PORTAL_* variable."
    )


def _is_from_kubernetes(name: str, value: str) -> bool:
    rest = name.removeprefix(PREFIX)
    return value.startswith("tcp://") or rest.startswith(("SERVICE_", "PORT_"))


def _explained(error: ValidationError, environ: Mapping[str, str]) -> SettingsError:
    first = error.errors(include_input=False)[0]
    name = PREFIX + str(first["loc"][0]).removeprefix(PREFIX).upper()
    remedy = "Correct the value; the README lists what each variable takes."
    if environ.get(name, "").startswith("tcp://"):
        remedy = KUBERNETES_REMEDY
    return SettingsError(f"{name}: {first['msg'].removeprefix('Value error, ')}.", remedy=remedy)
