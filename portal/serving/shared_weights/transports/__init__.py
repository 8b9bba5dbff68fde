"""How the bytes of a segment reach other processes: one shape, three ways, chosen by name and never exchanged.

`memfd` holds host memory (what vLLM's CPU backend computes on), `cuda_vmm` device memory that each reader maps
read-only, `cuda_ipc` device memory of a process that must stay alive. The two CUDA ones follow the documented
interfaces of cuda-bindings and torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..faults import SharedWeightsError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Handle:
    """What one reader needs to map a segment: values that JSON knows, and perhaps a file descriptor."""

    values: Mapping[str, Any] = field(default_factory=dict)
    descriptor: int | None = None


class NewSegment(Protocol):
    """A segment that is being filled, by the loader alone."""

    @property
    def tensor(self) -> torch.Tensor:
        """All of it as one flat tensor of bytes, on its device."""

    def seal(self) -> None:
        """Ends the filling: where the transport can, nobody can write any more. `tensor` is gone then."""

    def export(self) -> Handle:
        """A handle for one reader. Only after `seal`."""


class Segment(Protocol):
    """A segment as a reader has it mapped. It lives as long as this object."""

    @property
    def tensor(self) -> torch.Tensor:
        """All of it as one flat tensor of bytes, on its device. To write to it is a fault where it is read-only."""


class Transport(Protocol):
    """One way to share. `outlives_owner`: readers go on when store and loader are gone."""

    name: str
    outlives_owner: bool

    def create(self, size_bytes: int, device: str) -> NewSegment:
        """Reserves memory. Raises SharedWeightsError."""

    def attach(self, handle: Handle, size_bytes: int, device: str) -> Segment:
        """Maps what a handle gives; takes its descriptor over. Raises SharedWeightsError."""


def named(name: str) -> Transport:
    """Raises SharedWeightsError when there is no such transport."""
    if name == "memfd":
        from .memfd import Memfd

        return Memfd()
    if name == "cuda_vmm":
        from .cuda_vmm import CudaVmm

        return CudaVmm()
    if name == "cuda_ipc":
        from .cuda_ipc import CudaIpc

        return CudaIpc()
    raise SharedWeightsError(
        f"There is no transport '{name}'.", "Choose memfd (host memory), cuda_vmm or cuda_ipc (a CUDA device)."
    )


def descriptor_of(handle: Handle) -> int:
    """Raises SharedWeightsError when the store sent none."""
    if handle.descriptor is None:
        raise SharedWeightsError("The store gave no segment.", "Restart the store with this release.")
    return handle.descriptor


def refuse_wrong_device(transport: str, device: str) -> None:
    """A transport serves one kind of memory. Raises SharedWeightsError."""
    wanted = "cpu" if transport == "memfd" else "cuda"
    if device.partition(":")[0] != wanted:
        raise SharedWeightsError(
            f"The transport {transport} shares memory of {wanted}, and the model runs on {device}.",
            "Choose memfd where vLLM runs on CPU, cuda_vmm (or cuda_ipc) where it runs on a CUDA device.",
        )
