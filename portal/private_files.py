"""Folders and files that nobody but the portal's user may look into, from the moment that they are there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from portal.errors import Unavailable


def make_private_folder(folder: Path) -> None:
    """Makes a folder and its missing parents for the owner alone, and closes an existing one to others.

    Left as it is: one of another owner, and one with the sticky bit, which is everybody's. Raises Unavailable.
    """
    with _file_errors():
        _make_folders(folder)
        _close_to_others(folder)


def make_private_file(path: Path, *, helpers: tuple[str, ...] = ()) -> None:
    """Makes an empty file, and its missing folders, for the owner alone, and closes an existing one to others.

    So it does with files beside it that are there: `helpers` are what their names add. An existing folder keeps
    its mode, since it may be anybody's (/var, a home). Raises Unavailable.
    """
    # An existing file is not opened: to close it would drop the locks that SQLite holds on it in this process.
    with _file_errors():
        _make_folders(path.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        for suffix in ("", *helpers):
            with suppress(FileNotFoundError):
                _close_to_others(path.with_name(path.name + suffix))


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _close_to_others(path: Path) -> None:
    present = path.stat()
    if present.st_uid == os.geteuid() and present.st_mode & 0o077 and not present.st_mode & stat.S_ISVTX:
        path.chmod(stat.S_IMODE(present.st_mode) & 0o700)


@contextmanager
def _file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"The folder or file of the database cannot be made: {error.strerror}.",
            remedy="Let the portal's user write to PORTAL_DATA_DIR, or to the folder that PORTAL_DATABASE_URL names.",
        ) from error
