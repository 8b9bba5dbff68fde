"""A program in a process group of its own, ended whole: `vllm serve` leaves its engine behind when killed alone.

Also the record on disk by which a later supervisor finds and ends what an earlier one left.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_LONGEST_LOG_BYTES = 20 << 20
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ProcessRecord:
    """A group's leader. `start_ticks` and `boot_id` tell it from a later process with the same number."""

    name: str
    pid: int
    start_ticks: int
    boot_id: str


class ProcessGroup:
    """A running group. The leader's exit status is `status`, None while it runs."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_file: Path, log_start: int) -> None:
        self.name, self.log_file = name, log_file
        self._process, self._log_start = process, log_start

    @classmethod
    async def start(cls, name: str, command: Sequence[str], environ: Mapping[str, str], folder: Path) -> ProcessGroup:
        """Starts it in a new session with its output in `folder/NAME.log`, and records it. Raises OSError."""
        log_file = folder / f"{name}.log"
        with suppress(FileNotFoundError):
            if log_file.stat().st_size > _LONGEST_LOG_BYTES:
                log_file.replace(log_file.with_suffix(".log.1"))
        with log_file.open("ab") as log:
            log_start = log.tell()
            process = await asyncio.create_subprocess_exec(
                *command,
                env=dict(environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        group = cls(name, process, log_file, log_start)
        try:
            group._record()
        except OSError:  # a full disk: nobody would ever end it
            group._signal(signal.SIGKILL)
            raise
        return group

    @property
    def pid(self) -> int:
        """The leader's, which is the group's number too."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status of the leader; negative for a signal."""
        return self._process.returncode

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM to all, then SIGKILL to what is left of the group after the grace."""
        self._signal(signal.SIGTERM)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all_gone(), grace_seconds)
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL to all; returns when the leader is gone."""
        self._signal(signal.SIGKILL)
        await self._process.wait()
        self._record_file.unlink(missing_ok=True)

    def log_end(self, size: int = 100_000) -> str:
        """The end of what this process wrote, for a message; nothing when the file was taken away."""
        with suppress(OSError), self.log_file.open("rb") as log:
            log.seek(max(self._log_start, self.log_file.stat().st_size - size))
            return log.read().decode(errors="replace")
        return ""

    @property
    def _record_file(self) -> Path:
        return self.log_file.with_name(f"{self.name}.process.json")

    def _record(self) -> None:
        record = ProcessRecord(self.name, self.pid, _start_ticks(self.pid) or 0, _boot_id())
        self._record_file.write_text(json.dumps(asdict(record)))

    async def _all_gone(self) -> None:
        while members(self.pid):  # noqa: ASYNC110  # the kernel tells nobody that a session is empty
            await asyncio.sleep(_POLL_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def members(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields and int(fields[3]) == session and fields[0] != "Z":
                found.append(int(name))
    return found


def end_leftovers(folder: Path) -> list[str]:
    """Kills what recorded groups are still there; gives their names. Safe against reused process numbers."""
    ended = set()
    for path in sorted(folder.glob("*.process.json")):
        with suppress(OSError, ValueError, TypeError):
            record = ProcessRecord(**json.loads(path.read_text()))
            if _kill_session_of(record):
                ended.add(record.name)
        path.unlink(missing_ok=True)
    return sorted(ended)


def _kill_session_of(record: ProcessRecord) -> bool:
    """False when nothing of it is there any more."""
    if record.boot_id != _boot_id() or not _is_same_session(record):
        return False
    left = members(record.pid)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(left)


def _is_same_session(record: ProcessRecord) -> bool:
    """A number stays taken while its session has members, so only a living leader can be somebody else."""
    ticks = _start_ticks(record.pid)
    return ticks is None or ticks == record.start_ticks


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat behind the name, which may hold anything: state, parent, group, session …"""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return []


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
