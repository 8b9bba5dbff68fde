"""What processes really hold in memory, from /proc: shares of one segment, and what is theirs alone (Linux)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)\s")
_KILOBYTE = 1024


def family(pid: int) -> list[int]:
    """A process and all its descendants that are there now."""
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += family(int(child))
    return found


def unique_bytes(pids: Iterable[int]) -> int:
    """What would be free if these processes ended: their private pages."""
    return sum(sum(_rollup(pid, "Private_Clean", "Private_Dirty")) for pid in pids)


def proportional_bytes(pids: Iterable[int]) -> int:
    """Their memory, with shared pages counted in equal parts."""
    return sum(sum(_rollup(pid, "Pss")) for pid in pids)


def segment_bytes(inode: int) -> int:
    """Physical memory of one segment over all processes that map it: the sum of their proportional shares."""
    return sum(segment_share_bytes(int(name), inode) for name in os.listdir("/proc") if name.isdigit())


def segment_share_bytes(pid: int, inode: int) -> int:
    """One process's proportional share of a segment."""
    total, is_inside = 0, False
    for line in _lines(f"/proc/{pid}/smaps"):
        mapping = _MAPPING.match(line)
        if mapping:
            is_inside = int(mapping[1]) == inode and "/memfd:" in line
        elif is_inside and line.startswith("Pss:"):
            total += int(line.split()[1]) * _KILOBYTE
    return total


def _rollup(pid: int, *names: str) -> Iterator[int]:
    for line in _lines(f"/proc/{pid}/smaps_rollup"):
        name, _, rest = line.partition(":")
        if name in names:
            yield int(rest.split()[0]) * _KILOBYTE


def _lines(path: str) -> list[str]:
    with suppress(OSError):  # it has ended, or is another user's
        return Path(path).read_text().splitlines()
    return []
