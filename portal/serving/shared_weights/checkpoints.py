"""A checkpoint's identity: its safetensors files as the file system knows them, and the hash of their contents."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .faults import SharedWeightsError
from .manifest import Checkpoint, FileIdentity


def described(folder: Path) -> Checkpoint:
    """Reads the whole checkpoint once to hash it: about a second for 2 GB. Raises SharedWeightsError."""
    files = identities(folder)
    return Checkpoint(str(folder.resolve()), content_sha256(folder), files)


def identities(folder: Path) -> tuple[FileIdentity, ...]:
    """Each safetensors file, links followed, in the order of their names. Raises SharedWeightsError."""
    return tuple(_identity(path) for path in _files(folder))


def content_sha256(folder: Path) -> str:
    """The hash over names and contents of all safetensors files. Raises SharedWeightsError."""
    whole = hashlib.sha256()
    for path in _files(folder):
        with path.open("rb") as file:
            whole.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def refuse_other_contents(store: Checkpoint, folder: Path) -> None:
    """Compares files first; where they are not the very same ones, contents. Raises SharedWeightsError."""
    if identities(folder) == store.files:
        return
    mine = content_sha256(folder)
    if mine != store.sha256:
        raise SharedWeightsError(
            f"The store holds the weights of {store.path} (sha256 {store.sha256[:16]}…), this instance was told"
            f" to use {folder.resolve()} (sha256 {mine[:16]}…), and their contents differ.",
            "Start both with the same checkpoint; after a change of its files restart the store.",
        )


def _identity(path: Path) -> FileIdentity:
    real = path.resolve()
    found = real.stat()
    return FileIdentity(str(real), found.st_size, found.st_mtime_ns, found.st_ino)


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise SharedWeightsError(
            f"{folder} holds no *.safetensors file.", "Name the folder of a downloaded checkpoint, not a hub id."
        )
    return found
