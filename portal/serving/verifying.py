"""Has every tensor of the running store checked, in vLLM's environment, and tells damage from a check that failed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from portal.errors import Unavailable
from portal.serving.commands import environment
from portal.serving.configuration import FleetConfiguration
from portal.serving.parts import reason_in
from portal.serving.shared_weights.verify import DAMAGED, REFUSED

_SECONDS = 600
_REMEDY = "See by `fleet status` whether the store is ready, then try again."


@dataclass(frozen=True)
class Verification:
    """What the check found; `is_damaged` says that tensors are not what the loader had."""

    said: str
    is_damaged: bool


def verified(fleet: FleetConfiguration) -> Verification:
    """Raises Unavailable when the store could not be checked: that says nothing of its weights."""
    command = [str(fleet.vllm_python), "-m", "ocr_shared_weights.verify", "--socket", str(fleet.store_socket)]
    try:
        done = subprocess.run(  # noqa: S603
            command, env=environment(fleet), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"The store could not be verified: {error}.", remedy=_REMEDY) from error
    if done.returncode == 0:
        return Verification(done.stdout.strip(), is_damaged=False)
    message, remedy = _told(done.stderr)
    if done.returncode == DAMAGED:
        return Verification(f"{message}\n{remedy}", is_damaged=True)
    if done.returncode == REFUSED:
        raise Unavailable(f"The store could not be verified: {message}", remedy=remedy)
    reason = reason_in(done.stderr) or f"the check ended with status {done.returncode}"
    raise Unavailable(f"The store could not be verified: {reason}", remedy=_REMEDY)


def _told(text: str) -> tuple[str, str]:
    """Message and remedy: the last two lines, which libraries may have written before."""
    *_, message, remedy = ["", "", *text.strip().splitlines()]
    return message, remedy
