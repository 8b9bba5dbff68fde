"""The folder where a fleet runs: sockets, logs and records of processes. One supervisor at a time holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from portal.errors import SettingsError
from portal.serving.configuration import FleetConfiguration
from portal.serving.shared_weights.faults import SharedWeightsError
from portal.serving.shared_weights.private_folders import make_private_folder_of, refuse_long_path


@contextmanager
def held(fleet: FleetConfiguration) -> Iterator[None]:
    """Made for its owner alone. Raises SettingsError when it cannot be, or another supervisor has it."""
    _make(fleet)
    descriptor = _lock(fleet)
    try:
        yield
    finally:
        os.close(descriptor)


def _make(fleet: FleetConfiguration) -> None:
    try:
        refuse_long_path(fleet.store_socket)  # the longer of the two, before anything is made
        for socket in (fleet.control_socket, fleet.store_socket):
            make_private_folder_of(socket)
    except SharedWeightsError as error:
        raise SettingsError(f"run_dir: {error.message}", remedy=error.remedy) from error


def _lock(fleet: FleetConfiguration) -> int:
    try:
        (fleet.run_dir / "logs").mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(fleet.run_dir / "fleet.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(
            f"run_dir: {error.filename} cannot be made: {error.strerror}.",
            remedy="Take away what an earlier run left there as another user, or name another run_dir.",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SettingsError(
            f"Another fleet runs in {fleet.run_dir}.", remedy="Steer it (fleet status), or name another run_dir."
        ) from error
    return descriptor
