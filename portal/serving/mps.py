"""NVIDIA's Multi-Process Service, only where the operator asked for it.

It lets kernels of several instances run side by side, but a fatal fault in one client reaches every client of that
GPU: one bad request can end all instances at once. So it is never on by itself.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from portal.errors import SettingsError, Unavailable
from portal.serving.commands import environment
from portal.serving.configuration import FleetConfiguration

_log = logging.getLogger(__name__)
_CONTROL = "nvidia-cuda-mps-control"
_SECONDS = 30


@contextmanager
def daemon(fleet: FleetConfiguration) -> Iterator[None]:
    """Runs its control daemon around the fleet; instances find it by the environment. Raises PortalError."""
    if not fleet.mps:
        yield
        return
    program = shutil.which(_CONTROL)
    if program is None:
        raise SettingsError(
            f"mps is on, and {_CONTROL} is not on this machine.", remedy="Install it, or set mps = false."
        )
    folder = fleet.run_dir / "mps"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = str(folder)
    environ = environment(fleet)
    _log.warning("MPS is on: a fatal fault in one instance reaches all instances of this GPU")
    _told([program, "-d"], environ)
    try:
        yield
    finally:
        _told([program], environ, "quit\n")


def _told(command: list[str], environ: dict[str, str], text: str = "") -> None:
    try:
        done = subprocess.run(  # noqa: S603
            command, env=environ, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{_CONTROL} did not answer: {error}.", remedy="See its log in run_dir/mps.") from error
    if done.returncode:
        raise Unavailable(f"{_CONTROL} failed: {done.stderr.strip()[:300]}", remedy="See its log in run_dir/mps.")
