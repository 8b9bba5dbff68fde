"""Where each tensor lies in a segment: laying out and filling on the loader's side, views and checks on a reader's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .faults import DamagedWeights, SharedWeightsError
from .manifest import Kind, TensorEntry

if TYPE_CHECKING:
    import torch

ALIGNMENT_BYTES = 256  # what CUDA's kernels may expect of a tensor's address


@dataclass(frozen=True)
class NamedTensor:
    """A parameter or buffer of a model under one of its names."""

    name: str
    kind: Kind
    tensor: torch.Tensor


@dataclass(frozen=True)
class Layout:
    """`placed` gives each distinct tensor its offset; `ties` gives other names of the same tensor its first one."""

    placed: tuple[tuple[NamedTensor, int], ...]
    ties: dict[str, str]
    total_bytes: int


def tensors_of(model: torch.nn.Module) -> list[NamedTensor]:
    """All parameters and buffers under all their names, also buffers that no checkpoint has (rope tables, scales)."""
    found = [
        NamedTensor(name, "parameter", parameter.data)
        for name, parameter in model.named_parameters(remove_duplicate=False)
    ]
    known = {one.name for one in found}
    found += [
        NamedTensor(name, "buffer", buffer)
        for name, buffer in model.named_buffers(remove_duplicate=False)
        if name not in known
    ]
    return found


def laid_out(tensors: Iterable[NamedTensor]) -> Layout:
    """Raises SharedWeightsError for a tensor that is not contiguous: its bytes alone would not say what it is."""
    placed: list[tuple[NamedTensor, int]] = []
    first_names: dict[tuple[object, ...], str] = {}
    ties: dict[str, str] = {}
    offset = 0
    for one in tensors:
        if not one.tensor.is_contiguous():
            raise SharedWeightsError(
                f"The tensor {one.name} is not contiguous, as with some quantized layers; such cannot be shared.",
                "Serve this checkpoint unquantized (bfloat16), or without sharing.",
            )
        size_bytes = one.tensor.nbytes
        key = (one.tensor.data_ptr(), tuple(one.tensor.shape), one.tensor.dtype)
        if size_bytes and key in first_names:
            ties[one.name] = first_names[key]
            continue
        first_names[key] = one.name
        placed.append((one, offset))
        offset += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return Layout(tuple(placed), ties, max(offset, ALIGNMENT_BYTES))


def fill(segment: torch.Tensor, layout: Layout) -> tuple[TensorEntry, ...]:
    """Copies all tensors into a flat tensor of bytes; checksums are taken of the sources, not of the copies."""
    entries = []
    for one, offset in layout.placed:
        source = _bytes_of(one.tensor)
        segment[offset : offset + source.numel()].copy_(source)
        dtype = str(one.tensor.dtype).removeprefix("torch.")
        entries.append(
            TensorEntry(one.name, one.kind, dtype, tuple(one.tensor.shape), offset, source.numel(), _sha256(source))
        )
    return tuple(entries)


def views(segment: torch.Tensor, entries: Iterable[TensorEntry]) -> Iterator[tuple[TensorEntry, torch.Tensor]]:
    """Each tensor as a view into the segment."""
    import torch

    for entry in entries:
        dtype = getattr(torch, entry.dtype)
        raw = segment[entry.offset : entry.offset + entry.size_bytes]
        yield entry, raw.view(dtype).view(entry.shape) if entry.size_bytes else torch.empty(entry.shape, dtype=dtype)


def damaged(segment: torch.Tensor, entries: Sequence[TensorEntry]) -> list[str]:
    """Names of the tensors whose bytes are not those that the loader had."""
    return [
        entry.name
        for entry in entries
        if _sha256(segment[entry.offset : entry.offset + entry.size_bytes]) != entry.sha256
    ]


def refuse_damage(segment: torch.Tensor, entries: Sequence[TensorEntry]) -> None:
    """Raises DamagedWeights that names them."""
    bad = damaged(segment, entries)
    if bad:
        shown = ", ".join(bad[:5]) + (" …" if len(bad) > 5 else "")
        raise DamagedWeights(
            f"{len(bad)} of {len(entries)} tensors in the store are not what was loaded: {shown}.",
            "Restart the store; if it happens again, test the machine's memory.",
        )


def lies_inside(tensor: torch.Tensor, segment: torch.Tensor) -> bool:
    """Whether all bytes of a tensor are bytes of the segment."""
    start = segment.data_ptr()
    first = tensor.data_ptr()
    return bool(start <= first and first + tensor.nbytes <= start + segment.numel())


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    return tensor.detach().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def _sha256(raw: torch.Tensor) -> str:
    return hashlib.sha256(memoryview(raw.cpu().numpy())).hexdigest()
