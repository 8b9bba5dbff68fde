"""How much memory there is to plan with: the card's by NVML, or the host's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import SettingsError


@dataclass(frozen=True)
class Memory:
    """A card, MIG slice or host: its name, all of its memory, and what others use of it now."""

    name: str
    total_bytes: int
    used_bytes: int


def host_memory() -> Memory:
    """The host's memory, or the limit of this container where that is lower."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, available = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    limit = _container_limit()
    if limit is not None and limit < total:
        return Memory("this container", limit, max(0, limit - available))
    return Memory("this host", total, total - available)


def device_memory(device: str) -> Memory:
    """A card by number, or a card or MIG slice by UUID, as NVML knows it. Raises SettingsError."""
    try:
        import pynvml
    except ImportError as error:
        raise _not_asked("the package nvidia-ml-py is not installed") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _not_asked(str(error)) from error
    try:
        handle = _handle(pynvml, device)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return Memory(str(pynvml.nvmlDeviceGetName(handle)), int(memory.total), int(memory.used))
    except pynvml.NVMLError as error:
        raise SettingsError(
            f"NVML knows no device '{device}': {error}.", remedy="`nvidia-smi -L` lists cards and MIG slices."
        ) from error
    finally:
        pynvml.nvmlShutdown()


def _handle(pynvml: Any, device: str) -> Any:
    if device.isdigit():
        return pynvml.nvmlDeviceGetHandleByIndex(int(device))
    return pynvml.nvmlDeviceGetHandleByUUID(device)


def _not_asked(reason: str) -> SettingsError:
    return SettingsError(
        f"The card's memory cannot be asked for: {reason}.",
        remedy='Plan on the GPU box, or state the card: `fleet plan --memory "24 GiB"`.',
    )


def _container_limit() -> int | None:
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
