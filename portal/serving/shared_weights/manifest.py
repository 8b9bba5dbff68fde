"""What a store says about the weights it holds, as JSON, and how an instance compares it with what it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from .faults import SharedWeightsError

FORMAT = 1

Kind = Literal["parameter", "buffer"]


@dataclass(frozen=True)
class FileIdentity:
    """A file as the file system knows it; equal identities mean equal contents, unequal ones mean nothing."""

    path: str
    size_bytes: int
    modified_ns: int
    inode: int


@dataclass(frozen=True)
class Checkpoint:
    """Where the weights come from. `sha256` covers the contents of all its safetensors files, with their names."""

    path: str
    sha256: str
    files: tuple[FileIdentity, ...]


@dataclass(frozen=True)
class TensorEntry:
    """One tensor in the segment: contiguous, at `offset` bytes. `sha256` is that of its bytes."""

    name: str
    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything an instance must know before it maps the segment.

    `identity` is what must be equal on both sides: configuration, dtype, versions, device … `ties` gives the names of
    tensors that are another one. `total_bytes` is the segment's size.
    """

    checkpoint: Checkpoint
    identity: Mapping[str, str]
    tensors: tuple[TensorEntry, ...]
    ties: Mapping[str, str]
    total_bytes: int
    transport: str
    made_at: float
    format: int = FORMAT
    loading: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The manifest as values that JSON knows."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Manifest:
        """Raises SharedWeightsError when it is of another format or malformed."""
        if given.get("format") != FORMAT:
            raise SharedWeightsError(
                f"The store speaks format {given.get('format')}, this instance format {FORMAT}.",
                "Install the same release of ocr-shared-weights for both and restart the store.",
            )
        try:
            return _parsed(given)
        except (KeyError, TypeError, ValueError) as error:
            raise SharedWeightsError(
                f"The store's manifest is malformed ({type(error).__name__}: {error}).", "Restart the store."
            ) from error


def _parsed(given: Mapping[str, Any]) -> Manifest:
    checkpoint = given["checkpoint"]
    files = tuple(FileIdentity(**one) for one in checkpoint["files"])
    manifest = Manifest(
        checkpoint=Checkpoint(str(checkpoint["path"]), str(checkpoint["sha256"]), files),
        identity=dict(given["identity"]),
        tensors=tuple(TensorEntry(**{**one, "shape": tuple(one["shape"])}) for one in given["tensors"]),
        ties=dict(given["ties"]),
        total_bytes=int(given["total_bytes"]),
        transport=str(given["transport"]),
        made_at=float(given["made_at"]),
        loading=dict(given["loading"]),
    )
    for entry in manifest.tensors:
        if not 0 <= entry.offset <= entry.offset + entry.size_bytes <= manifest.total_bytes:
            raise ValueError(f"{entry.name} lies outside the segment")
    return manifest


def refuse_difference(store: Mapping[str, str], instance: Mapping[str, str]) -> None:
    """Raises SharedWeightsError that names each value that differs, on both sides."""
    names = sorted(store.keys() | instance.keys())
    different = [name for name in names if store.get(name) != instance.get(name)]
    if different:
        both = "; ".join(f"{name}: store {store.get(name)}, instance {instance.get(name)}" for name in different)
        raise SharedWeightsError(
            f"The store's weights are not those that this instance needs ({both}).",
            "Start store and instance with the same checkpoint, options and versions.",
        )


def parsed_json(text: bytes) -> dict[str, Any]:
    """Raises ValueError when it is no JSON object."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # callers catch one kind
    return value
