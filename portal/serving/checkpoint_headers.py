"""What a checkpoint needs, told from its safetensors headers and config.json alone: no weight is read."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.errors import SettingsError

_MAX_HEADER_BYTES = 100 << 20
_ELEMENT_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}  # all others: one byte


@dataclass(frozen=True)
class CheckpointShape:
    """Bytes of all tensors, what a token costs in the KV cache, and the widths that activations grow with."""

    architecture: str
    parameters: int
    weights_bytes: int
    kv_token_bytes: int
    hidden_width: int
    vocabulary: int


def read_shape(folder: Path) -> CheckpointShape:
    """Raises SettingsError when the folder is no checkpoint that can be planned for."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        missing = "holds no *.safetensors file" if folder.is_dir() else "is no folder"
        raise SettingsError(f"{folder} {missing}.", remedy="Set checkpoint to a downloaded checkpoint's folder.")
    tensors = [tensor for file in files for tensor in _tensors(file)]
    configuration = _configuration(folder)
    text = configuration.get("text_config") or configuration
    try:
        heads = int(text["num_attention_heads"])
        key_value_heads = int(text.get("num_key_value_heads") or heads)
        head_width = int(text.get("head_dim") or text["hidden_size"] // heads)
        return CheckpointShape(
            architecture=str((configuration.get("architectures") or ["unknown"])[0]),
            parameters=sum(math.prod(shape) for shape, _ in tensors),
            weights_bytes=sum(size for _, size in tensors),
            kv_token_bytes=2 * int(text["num_hidden_layers"]) * key_value_heads * head_width * 2,
            hidden_width=int(text["hidden_size"]),
            vocabulary=int(text["vocab_size"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"{folder}/config.json lacks what a plan needs: {error}.", remedy="Use the checkpoint as it is published."
        ) from error


def _tensors(path: Path) -> list[tuple[list[int], int]]:
    """Shape and bytes of each tensor of one file. The format: 8 bytes of length, JSON, data."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER_BYTES:
                raise ValueError("its header is too long")
            header: dict[str, Any] = json.loads(file.read(length))
        return [
            (tensor["shape"], math.prod(tensor["shape"]) * _ELEMENT_BYTES.get(tensor["dtype"], 1))
            for name, tensor in header.items()
            if name != "__metadata__"
        ]
    except (OSError, ValueError, struct.error, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path.name} is no whole safetensors file: {error}.", remedy="Download the checkpoint again."
        ) from error


def _configuration(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{folder}/config.json cannot be read: {error}.", remedy="Download the checkpoint again."
        ) from error
    if not isinstance(found, dict):
        raise SettingsError(f"{folder}/config.json is no object.", remedy="Download the checkpoint again.")
    return found
