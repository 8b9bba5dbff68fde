"""Workers by what the machine and the container grant."""

from __future__ import annotations

import os
from pathlib import Path

from portal.engine.capacity import free_memory_bytes, usable_cores
from portal.engine.embedded import default_workers


def _cgroup(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    return folder


def test_cores_follow_the_quota_when_it_is_less_than_the_affinity(tmp_path: Path) -> None:
    affinity = len(os.sched_getaffinity(0))
    assert usable_cores(_cgroup(tmp_path, cpu_max="50000 100000\n")) == 1
    assert usable_cores(_cgroup(tmp_path, cpu_max="max 100000\n")) == affinity
    assert usable_cores(tmp_path / "absent") == affinity


def test_memory_follows_the_limit_when_it_leaves_less_than_the_machine(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    assert free_memory_bytes(tmp_path / "absent", meminfo) == 8_000_000 * 1024
    limited = _cgroup(tmp_path, memory_max="3000\n", memory_current="1000\n")
    assert free_memory_bytes(limited, meminfo) == 2000


def test_memory_is_guessed_when_the_system_does_not_say(tmp_path: Path) -> None:
    assert free_memory_bytes(tmp_path, tmp_path / "absent") > 0


def test_there_is_at_least_one_worker() -> None:
    assert 1 <= default_workers() <= len(os.sched_getaffinity(0))
