"""A fleet as one TOML file describes it: checkpoint, card, instances, ports, patience. Unknown keys are refused.

Sizes are bytes or words like "4 GiB"; the command line and the supervisor read it through `load`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from portal.errors import SettingsError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMG]?I?B?)", re.IGNORECASE)


def size_bytes(value: object) -> object:
    """`"4 GiB"` → bytes; anything else is left for pydantic to judge."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None or found[2].upper() not in _UNITS:
            raise ValueError(f"'{value}' is no size: write bytes, or words like \"4 GiB\"")
        return int(float(found[1]) * _UNITS[found[2].upper()])
    return value


Size = Annotated[int, BeforeValidator(size_bytes), Field(gt=0)]
Port = Annotated[int, Field(ge=1, le=65535)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Engine(_Part):
    """What each instance is told. `args` are further vLLM options, the same for all and for the store's loader."""

    max_model_len: int = Field(8192, gt=0)
    max_num_seqs: int = Field(16, gt=0)
    kv_cache: Size = 4 << 30
    args: tuple[str, ...] = ()
    environ: dict[str, str] = Field(default_factory=dict)


class Card(_Part):
    """Overrides of what the memory plan measures or assumes: the card's memory, and what an instance needs of it."""

    memory: Size | None = None
    use_fraction: float = Field(0.8, gt=0, le=1)
    context: Size | None = None
    activations: Size | None = None


class Patience(_Part):
    """How long things may take, in seconds, and how often they may fail."""

    start_seconds: float = Field(900, gt=0)
    hang_seconds: float = Field(60, gt=0)
    probe_seconds: float = Field(60, gt=0)
    drain_seconds: float = Field(180, gt=0)
    stop_seconds: float = Field(20, gt=0)
    first_backoff_seconds: float = Field(1, gt=0)
    longest_backoff_seconds: float = Field(60, gt=0)
    failures: int = Field(5, gt=0)
    failures_window_seconds: float = Field(900, gt=0)


class Control(_Part):
    """Where the fleet is steered. The Unix socket in `run_dir` always stands; TCP needs a token."""

    host: str = "127.0.0.1"
    port: Port | None = None
    token_file: Path | None = None


class FleetConfiguration(_Part):
    """All of it. `device` is a number, a GPU's or a MIG slice's UUID as CUDA_VISIBLE_DEVICES takes it, or `cpu`."""

    checkpoint: Path
    served_name: str = Field(pattern=r"^[\w./-]+$")
    vllm_python: Path
    run_dir: Path
    device: str = "0"
    transport: Literal["memfd", "cuda_vmm", "cuda_ipc"] = "cuda_vmm"
    instances: int = Field(2, ge=1, le=32)
    first_port: Port = 8101
    router_host: str = "127.0.0.1"
    router_port: Port = 8000
    router_metrics_port: Port = 29000
    verify: bool = False
    mps: bool = False
    engine: Engine = Engine()
    card: Card = Card()
    patience: Patience = Patience()
    control: Control = Control()

    @property
    def is_cpu(self) -> bool:
        """Whether vLLM computes on the host."""
        return self.device == "cpu"

    @property
    def store_socket(self) -> Path:
        """Where instances find the weights."""
        return self.run_dir / "store" / "weights.sock"

    @property
    def control_socket(self) -> Path:
        """Where the fleet is steered from this machine."""
        return self.run_dir / "control.sock"


def load(path: Path) -> FleetConfiguration:
    """Reads and checks the file. Raises SettingsError that names the key."""
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"The fleet's file {path} cannot be read: {error.strerror}.", remedy=_EXAMPLES) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}.", remedy=_EXAMPLES) from error
    try:
        fleet = FleetConfiguration.model_validate(given)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_first_fault(error)}.", remedy=_EXAMPLES) from error
    _refuse_contradictions(fleet)
    return fleet


_EXAMPLES = "See deploy/fleet/*.toml for a file that works."


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"the key '{key}' is not known"
    return f"'{key}': {fault['msg']}"


def _refuse_contradictions(fleet: FleetConfiguration) -> None:
    if (fleet.transport == "memfd") != fleet.is_cpu:
        raise SettingsError(
            f"The transport {fleet.transport} does not fit the device '{fleet.device}'.",
            remedy='memfd goes with device = "cpu", cuda_vmm and cuda_ipc with a GPU.',
        )
    if fleet.mps and fleet.is_cpu:
        raise SettingsError("MPS is NVIDIA's; there is none on CPU.", remedy="Leave mps out.")
    if (fleet.control.port is None) != (fleet.control.token_file is None):
        raise SettingsError(
            "Control over TCP needs both control.port and control.token_file.",
            remedy="Name a file with a token of at least 32 characters, or use the Unix socket alone.",
        )
    ports = [fleet.router_port, fleet.router_metrics_port, *range(fleet.first_port, fleet.first_port + fleet.instances)]
    if fleet.control.port is not None:
        ports.append(fleet.control.port)
    if len(set(ports)) != len(ports) or max(ports) > 65535:
        raise SettingsError("Two parts of the fleet would listen on the same port.", remedy="Move first_port.")
