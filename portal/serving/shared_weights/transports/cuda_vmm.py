"""Device memory through CUDA's virtual memory management: a POSIX descriptor, and read-only access for each reader.

The memory lives until the last mapping and the last descriptor are gone (documentation of cuMemRelease), so the store
needs no CUDA context: it holds the descriptor. Written against cuda-bindings 13 (`cuda.bindings.driver`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..faults import SharedWeightsError
from . import Handle, descriptor_of, refuse_wrong_device

if TYPE_CHECKING:
    import torch


class CudaVmm:
    """The transport of choice on CUDA."""

    name = "cuda_vmm"
    outlives_owner = True

    def create(self, size_bytes: int, device: str) -> NewVmmSegment:
        """Allocates physical memory that can be exported, and maps it writable here."""
        refuse_wrong_device(self.name, device)
        ordinal = _current_device(device)
        size_bytes = _rounded_up(size_bytes, _granularity(ordinal))
        allocation = _call("cuMemCreate", size_bytes, _properties(ordinal), 0)
        return NewVmmSegment(_Mapped(allocation, size_bytes, ordinal, writable=True), size_bytes)

    def attach(self, handle: Handle, size_bytes: int, device: str) -> VmmSegment:
        """Maps it read-only: a kernel that writes to it faults in this process."""
        refuse_wrong_device(self.name, device)
        descriptor = descriptor_of(handle)
        try:
            ordinal = _current_device(device)
            _refuse_other_device(handle.values, ordinal)
            kind = _driver().CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
            allocation = _call("cuMemImportFromShareableHandle", descriptor, kind)
        finally:
            os.close(descriptor)
        return VmmSegment(_Mapped(allocation, int(handle.values["mapped_bytes"]), ordinal, writable=False), size_bytes)


class _Mapped:
    """An address range over an allocation. Unmapped when this object goes; the allocation is released at once."""

    def __init__(self, allocation: Any, size_bytes: int, ordinal: int, *, writable: bool) -> None:
        driver = _driver()
        self.size_bytes, self.ordinal, self._allocation = size_bytes, ordinal, allocation
        self.address = int(_call("cuMemAddressReserve", size_bytes, 0, 0, 0))
        _call("cuMemMap", self.address, size_bytes, 0, allocation, 0)
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = ordinal
        flags = driver.CUmemAccess_flags
        access.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if writable else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
        _call("cuMemSetAccess", self.address, size_bytes, [access], 1)

    def exported(self) -> int:
        """A descriptor that keeps the memory alive by itself."""
        kind = _driver().CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        return int(_call("cuMemExportToShareableHandle", self._allocation, kind, 0))

    def tensor(self, size_bytes: int) -> torch.Tensor:
        """Its first bytes as a tensor that shares the memory (the CUDA array interface, version 3)."""
        import torch

        return torch.as_tensor(_ArrayInterface(self.address, size_bytes, self), device=f"cuda:{self.ordinal}")

    def release(self) -> None:
        """Unmaps it here; readers keep theirs."""
        _call("cuMemUnmap", self.address, self.size_bytes)
        _call("cuMemAddressFree", self.address, self.size_bytes)
        _call("cuMemRelease", self._allocation)


class _ArrayInterface:
    """torch refuses arrays that say they are read-only, so this one does not say it; the mapping is."""

    def __init__(self, address: int, size_bytes: int, owner: object) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
        self._owner = owner


class NewVmmSegment:
    """One that is being filled."""

    def __init__(self, mapped: _Mapped, size_bytes: int) -> None:
        self._mapped, self._size_bytes = mapped, size_bytes
        self._handle: Handle | None = None

    @property
    def tensor(self) -> torch.Tensor:
        """Bytes on the device."""
        return self._mapped.tensor(self._size_bytes)

    def seal(self) -> None:
        """Gives up the only writable mapping; from now on each reader maps it read-only."""
        import torch

        torch.cuda.synchronize(self._mapped.ordinal)
        values = {"mapped_bytes": self._mapped.size_bytes, "device": device_uuid(self._mapped.ordinal)}
        self._handle = Handle(values, self._mapped.exported())
        self._mapped.release()

    def export(self) -> Handle:
        """All readers share the one descriptor."""
        if self._handle is None:
            raise RuntimeError("export comes after seal")
        return self._handle


@dataclass(frozen=True)
class VmmSegment:
    """A read-only mapping. It is never unmapped before the process ends: captured graphs hold its addresses."""

    mapped: _Mapped
    size_bytes: int

    @property
    def tensor(self) -> torch.Tensor:
        """Bytes on the device, not to be written."""
        return self.mapped.tensor(self.size_bytes)


def device_uuid(ordinal: int) -> str:
    """The UUID of the card or MIG slice behind a device number, as `GPU-…`."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(ordinal).uuid}"


def _refuse_other_device(values: Mapping[str, Any], ordinal: int) -> None:
    mine = device_uuid(ordinal)
    if values.get("device") != mine:
        raise SharedWeightsError(
            f"The store's weights lie on {values.get('device')}, this instance runs on {mine}.",
            "Give store and instances the same device (CUDA_VISIBLE_DEVICES).",
        )


def _current_device(device: str) -> int:
    import torch

    _, _, ordinal = device.partition(":")
    number = int(ordinal) if ordinal else torch.cuda.current_device()
    torch.cuda.set_device(number)
    torch.empty(1, device=f"cuda:{number}")  # makes the primary context, which the driver's calls below need
    return number


def _properties(ordinal: int) -> Any:
    driver = _driver()
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = ordinal
    return properties


def _granularity(ordinal: int) -> int:
    flag = _driver().CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    return int(_call("cuMemGetAllocationGranularity", _properties(ordinal), flag))


def _rounded_up(size_bytes: int, step: int) -> int:
    return -(-size_bytes // step) * step


def _call(name: str, *arguments: Any) -> Any:
    """Calls the driver; gives its only result, or None. Raises SharedWeightsError with CUDA's name for the fault."""
    driver = _driver()
    status, *results = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise SharedWeightsError(
            f"CUDA refused {name}: {status.name}.",
            "Free device memory, or see whether this card and container allow it; where they do not, choose cuda_ipc.",
        )
    return results[0] if results else None


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise SharedWeightsError(
            "The transport cuda_vmm needs the package cuda-bindings.", "Install it beside torch, or choose cuda_ipc."
        ) from error
    return driver
