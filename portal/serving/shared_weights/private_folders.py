"""Folders for sockets, made for their owner alone. One that others may use is refused, never closed to them.

Stores and the fleet's supervisor make theirs by this.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .faults import SharedWeightsError

_LONGEST_PATH_BYTES = 107  # of a socket: unix(7)
_LARGEST_PID = 1 << 22  # kernel.pid_max at most: proc(5)


def make_private_folder_of(socket: Path) -> None:
    """Makes the folder where a Unix socket shall stand, with its missing parents. Raises SharedWeightsError."""
    refuse_long_path(socket)
    folder = socket.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise SharedWeightsError(
            f"The folder {folder} cannot be made: {error.strerror}.",
            "Name a folder below one where you may write, or have it made for you (mode 0700).",
        ) from error
    _refuse_shared(folder, found)


def refuse_long_path(socket: Path) -> None:
    """Raises SharedWeightsError when the kernel could not bind it."""
    longest = len(os.fsencode(while_bound(socket, _LARGEST_PID)))
    if longest > _LONGEST_PATH_BYTES:
        raise SharedWeightsError(
            f"{socket.parent} is too long for a socket in it: a path has {longest} bytes,"
            f" {_LONGEST_PATH_BYTES} are possible.",
            f"Name a folder that is {longest - _LONGEST_PATH_BYTES} bytes shorter.",
        )


def while_bound(socket: Path, pid: int) -> Path:
    """The name under which a process binds a socket, before it takes its place whole."""
    return socket.with_name(f".{socket.name}.{pid}")


def _refuse_shared(folder: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise SharedWeightsError(
            f"{folder} belongs to uid {found.st_uid}, not to uid {os.geteuid()}.", "Name a folder of your own."
        )
    if found.st_mode & stat.S_ISVTX:
        raise SharedWeightsError(f"{folder} is a folder of everybody.", "Name a folder of your own in it.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise SharedWeightsError(
            f"{folder} is open to others (mode {stat.S_IMODE(found.st_mode):04o}).",
            f"Name one that is not there yet; or, if nothing else uses this one: chmod 700 {folder}",
        )
