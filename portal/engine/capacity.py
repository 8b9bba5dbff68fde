"""What this process may use of the machine: cores and memory, as the scheduler and the container grant them."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Cores by CPU affinity and the cgroup v2 quota, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return max(1, cores)


def free_memory_bytes(cgroup: Path = _CGROUP, meminfo: Path = _MEMINFO) -> int:
    """Bytes to be had without swapping: the kernel's estimate, or what the cgroup v2 limit leaves if that is less."""
    free = _machine_free_bytes(meminfo)
    limit, used = _read(cgroup / "memory.max"), _read(cgroup / "memory.current")
    if limit.isdigit() and used.isdigit():
        free = min(free, int(limit) - int(used))
    return max(0, free)


def _machine_free_bytes(meminfo: Path) -> int:
    for row in _read(meminfo).splitlines():
        name, _, rest = row.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
