"""Device memory by torch's CUDA IPC: for machines where virtual memory management is not to be had.

The loader must stay alive: its memory goes with it, and readers must end then. Nothing is read-only. Each reader needs
an export of its own, since torch counts them (torch.multiprocessing.reductions).
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..faults import SharedWeightsError
from . import Handle, refuse_wrong_device

if TYPE_CHECKING:
    import torch

_FIELDS = (
    "device",
    "handle",
    "size_bytes",
    "offset_bytes",
    "counter_handle",
    "counter_offset",
    "event_handle",
    "event_sync_required",
)


class CudaIpc:
    """The transport for machines that refuse cuda_vmm."""

    name = "cuda_ipc"
    outlives_owner = False

    def create(self, size_bytes: int, device: str) -> NewIpcSegment:
        """Allocates by torch. Raises SharedWeightsError where torch's allocator cannot export."""
        refuse_wrong_device(self.name, device)
        configured = os.environ.get("PYTORCH_ALLOC_CONF", "") + os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        if "expandable_segments:True" in configured.replace(" ", ""):
            raise SharedWeightsError(
                "cuda_ipc cannot export memory of torch's expandable segments.",
                "Take expandable_segments out of PYTORCH_ALLOC_CONF for the store, or choose cuda_vmm.",
            )
        import torch

        return NewIpcSegment(torch.empty(size_bytes, dtype=torch.uint8, device=device))

    def attach(self, handle: Handle, size_bytes: int, device: str) -> IpcSegment:
        """Maps it, writable: CUDA IPC knows no other way."""
        refuse_wrong_device(self.name, device)
        import torch

        values = [_from_text(handle.values[field]) for field in _FIELDS]
        values[0] = torch.device(device).index or 0
        torch.cuda.init()
        storage = torch.UntypedStorage._new_shared_cuda(*values)
        flat = torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
        return IpcSegment(flat[:size_bytes])


class NewIpcSegment:
    """One that is being filled; this process must outlive its readers."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    @property
    def tensor(self) -> torch.Tensor:
        """Bytes on the device."""
        return self._tensor

    def seal(self) -> None:
        """Waits until all is written; there is no protection to add."""
        import torch

        torch.cuda.synchronize(self._tensor.device)

    def export(self) -> Handle:
        """One for a single reader."""
        values = self._tensor.untyped_storage()._share_cuda_()
        return Handle({field: _to_text(value) for field, value in zip(_FIELDS, values, strict=True)})


@dataclass(frozen=True)
class IpcSegment:
    """A mapping of another process's memory."""

    tensor: torch.Tensor


def _to_text(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_text(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value
