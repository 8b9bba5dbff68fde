"""Host memory without a name in any file system, sealed: it can neither be written nor shrunk, by anybody."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..faults import SharedWeightsError
from . import Handle, descriptor_of, refuse_wrong_device

if TYPE_CHECKING:
    import torch

SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Memfd:
    """The transport of vLLM's CPU backend."""

    name = "memfd"
    outlives_owner = True

    def create(self, size_bytes: int, device: str) -> NewMemfd:
        """Reserves all of it now, so that a lack of memory is an error here and no kill later."""
        refuse_wrong_device(self.name, device)
        descriptor = os.memfd_create("ocr-weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            _reserve(descriptor, size_bytes)
            return NewMemfd(descriptor, mmap.mmap(descriptor, size_bytes))
        except BaseException:
            os.close(descriptor)
            raise

    def attach(self, handle: Handle, size_bytes: int, device: str) -> MemfdSegment:
        """Maps it read-only, after a look at its seals and size."""
        refuse_wrong_device(self.name, device)
        return MemfdSegment(mapped(descriptor_of(handle), size_bytes))


class NewMemfd:
    """One that is being filled."""

    def __init__(self, descriptor: int, mapping: mmap.mmap) -> None:
        self._descriptor = descriptor
        self._mapping = mapping

    @property
    def tensor(self) -> torch.Tensor:
        """Bytes on the host; all views of it must be gone before `seal`."""
        import torch

        return torch.frombuffer(self._mapping, dtype=torch.uint8)

    def seal(self) -> None:
        """The kernel refuses to seal while a writable mapping lives, so ours ends first."""
        self._mapping.close()
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, SEALS)

    def export(self) -> Handle:
        """All readers share the one descriptor."""
        return Handle({}, self._descriptor)


@dataclass(frozen=True)
class MemfdSegment:
    """A read-only mapping: a write is a segmentation fault of the writer alone."""

    mapping: mmap.mmap

    @property
    def tensor(self) -> torch.Tensor:
        """Bytes on the host, not to be written."""
        import torch

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            return torch.frombuffer(self.mapping, dtype=torch.uint8)


def mapped(descriptor: int, size_bytes: int) -> mmap.mmap:
    """A read-only mapping of a sealed memfd; closes the descriptor. Raises SharedWeightsError."""
    try:
        refuse_unsealed(descriptor, size_bytes)
        return mmap.mmap(descriptor, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
    finally:
        os.close(descriptor)


def refuse_unsealed(descriptor: int, size_bytes: int) -> None:
    """Unsealed memory could change or vanish under its readers. Raises SharedWeightsError."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    if seals & SEALS != SEALS:
        raise SharedWeightsError(
            "The segment is not sealed, so its contents are not guaranteed.", "Restart the store with this release."
        )
    found = os.fstat(descriptor).st_size
    if found < size_bytes:
        raise SharedWeightsError(
            f"The segment has {found} bytes and the manifest speaks of {size_bytes}.", "Restart the store."
        )


def _reserve(descriptor: int, size_bytes: int) -> None:
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        if error.errno == errno.EFBIG:
            remedy = "Lift the limit on file sizes (ulimit -f unlimited, or LimitFSIZE=infinity in the unit)."
        else:
            remedy = "Free that much host memory, or raise the memory limit of the container or unit."
        raise SharedWeightsError(
            f"The store cannot reserve {size_bytes / 1e6:.0f} MB for the weights: {error.strerror}.", remedy
        ) from error
