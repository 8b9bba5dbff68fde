"""What a supervised part of the fleet is: its state as shown to people, and how it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from portal.serving.process_groups import ProcessGroup

_OURS = re.compile(r"(?<=SharedWeightsError: ).+|(?<=store ERROR ).+")
_REASON = re.compile(r"\b\w+(?:Error|Exception): .+|\bERROR\b .+")


class PartState(StrEnum):
    """Where a part stands. `failed` is a crash loop: it waits for an operator; `stopped` is what one asked for."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    BACKOFF = "backoff"
    FAILED = "failed"
    STOPPED = "stopped"


class Ended(Exception):
    """A part does not run any more, or must not: `reason` in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def started(name: str, command: Sequence[str], environ: Mapping[str, str], folder: Path) -> ProcessGroup:
    """Starts a part's program. Raises Ended when it cannot be run."""
    try:
        return await ProcessGroup.start(name, command, environ, folder)
    except OSError as error:
        raise Ended(f"could not be started: {error.filename or command[0]}: {error.strerror}") from error


def death(group: ProcessGroup) -> Ended:
    """How a process that is gone ended, with the last line of its log that looks like a reason."""
    status = group.status
    how = f"killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
    why = reason_in(group.log_end())
    return Ended(f"{how}: {why}" if why else how)


def reason_in(log: str) -> str:
    """What our plugin said, else the last line that names an error; cut to a length for a table.

    vLLM's three processes each print a traceback, and the last of them says only that another one has failed.
    """
    lines = log.splitlines()
    for pattern in (_OURS, _REASON):
        for line in reversed(lines):
            found = pattern.search(line)
            if found:
                return line[found.start() :].strip()[:500]
    return ""
