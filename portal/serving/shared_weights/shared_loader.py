"""vLLM's `--load-format shared`: the model is built for real, then its tensors are pointed into the store's segment.

Options (`--model-loader-extra-config`): `socket` (required), `name` of this instance for the store's log, `verify`
(check every tensor), `wait_seconds` for a store that is not there yet. Whatever does not fit is an error that names
both sides; nothing is ever loaded from disk instead.
"""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from vllm.logger import init_logger
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.model_executor.model_loader.utils import initialize_model, process_weights_after_loading
from vllm.model_executor.utils import weights_already_processed
from vllm.utils.torch_utils import set_default_torch_dtype

from . import checkpoints, transports
from .building import as_shared, identity, refuse_unshareable
from .client import Attachment, attach, status
from .faults import SharedWeightsError
from .manifest import Manifest, TensorEntry, refuse_difference
from .packing import lies_inside, refuse_damage, tensors_of, views

if TYPE_CHECKING:
    from torch import nn

log = init_logger("vllm.shared_weights")  # vLLM shows loggers below its own name only

_PRIVATE_BUFFER_BYTES = 1 << 20  # vLLM writes to some small buffers after loading (attention scales)
_STORE_GONE = 70
_KEPT: list[tuple[transports.Segment, socket.socket]] = []


class SharedModelLoader(BaseModelLoader):  # type: ignore[misc]  # vLLM is not installed where types are checked
    """Attach, compare, build, point, finish, check."""

    def __init__(self, load_config: Any) -> None:
        super().__init__(load_config)
        options = dict(load_config.model_loader_extra_config or {})
        if "socket" not in options:
            raise SharedWeightsError(
                "--load-format shared needs the store's socket.",
                """Add --model-loader-extra-config '{"socket": "/run/…/weights.sock"}'.""",
            )
        self._socket = Path(options.pop("socket"))
        self._name = str(options.pop("name", f"pid {os.getpid()}"))
        self._verify = bool(options.pop("verify", False))
        self._wait_seconds = float(options.pop("wait_seconds", 30))
        if options:
            raise SharedWeightsError(
                f"Unknown options of --load-format shared: {', '.join(sorted(options))}.",
                "It knows socket, name, verify and wait_seconds.",
            )

    def download_model(self, model_config: Any) -> None:
        """Nothing to fetch: the store has the weights."""

    def load_weights(self, model: nn.Module, model_config: Any) -> None:
        """Refused: an instance cannot change what others read."""
        raise SharedWeightsError("Shared weights cannot be loaded anew in place.", "Restart the store instead.")

    def get_external_weight_memory(self, vllm_config: Any) -> int:
        """What vLLM's CUDA worker must not count as its own."""
        return int(status(self._socket)["total_bytes"]) if torch.cuda.is_available() else 0

    def load_model(self, vllm_config: Any, model_config: Any, prefix: str = "") -> nn.Module:
        """The story. Raises SharedWeightsError."""
        refuse_unshareable(vllm_config, model_config)
        device = str(vllm_config.device_config.device)
        started = time.monotonic()
        attachment = attach(self._socket, name=self._name, wait_seconds=self._wait_seconds)
        manifest = attachment.manifest
        transports.refuse_wrong_device(manifest.transport, device)
        refuse_difference(manifest.identity, identity(vllm_config, model_config, device))
        checkpoints.refuse_other_contents(manifest.checkpoint, Path(model_config.model))
        transport = transports.named(manifest.transport)
        segment = transport.attach(attachment.handle, manifest.total_bytes, device)
        attached = time.monotonic()
        if self._verify:
            refuse_damage(segment.tensor, manifest.tensors)
        verified = time.monotonic()
        with set_default_torch_dtype(model_config.dtype):
            with torch.device(device):
                model = initialize_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
            built = time.monotonic()
            _point(model, segment.tensor, manifest)
            with weights_already_processed(), as_shared(device):
                process_weights_after_loading(model, model_config, torch.device(device))
        private_bytes = _checked(model, segment.tensor)
        if device.startswith("cuda"):
            gc.collect()
            torch.cuda.empty_cache()  # what the model was built with, before vLLM counts what is free
        _keep(segment, attachment, outlives_owner=transport.outlives_owner)
        log.info(
            "shared weights: %d tensors, %d ties, %.1f MB by %s, %.2f MB private; attach %.3f s, verify %.3f s,"
            " build %.3f s, point and finish %.3f s, together %.3f s",
            len(manifest.tensors),
            len(manifest.ties),
            manifest.total_bytes / 1e6,
            manifest.transport,
            private_bytes / 1e6,
            attached - started,
            verified - attached,
            built - verified,
            time.monotonic() - built,
            time.monotonic() - started,
        )
        return model.eval()


def _point(model: nn.Module, segment: torch.Tensor, manifest: Manifest) -> None:
    """Swaps the storage of each parameter and buffer; the objects stay, with their classes, ties and attributes."""
    mine = dict(model.named_parameters(remove_duplicate=False))
    mine |= {name: one for name, one in model.named_buffers(remove_duplicate=False) if name not in mine}
    _refuse_other_names(mine.keys(), {entry.name for entry in manifest.tensors} | manifest.ties.keys())
    shared: dict[str, torch.Tensor] = {}
    for entry, view in views(segment, manifest.tensors):
        _refuse_other_shape(mine[entry.name], entry)
        is_small_buffer = entry.kind == "buffer" and entry.size_bytes < _PRIVATE_BUFFER_BYTES
        shared[entry.name] = view.clone() if is_small_buffer else view
        mine[entry.name].data = shared[entry.name]
    for name, first in manifest.ties.items():
        if mine[name] is not mine[first]:
            mine[name].data = shared[first]


def _refuse_other_names(mine: Iterable[str], stored: Iterable[str]) -> None:
    only_mine, only_stored = sorted(set(mine) - set(stored)), sorted(set(stored) - set(mine))
    if only_mine or only_stored:
        raise SharedWeightsError(
            f"Store and instance built different models: only the instance has {only_mine[:5]},"
            f" only the store has {only_stored[:5]}.",
            "Start both with the same options and versions.",
        )


def _refuse_other_shape(mine: torch.Tensor, stored: TensorEntry) -> None:
    shape, dtype = tuple(mine.shape), str(mine.dtype).removeprefix("torch.")
    if (shape, dtype) != (stored.shape, stored.dtype):
        raise SharedWeightsError(
            f"{stored.name} is {stored.dtype} {stored.shape} in the store and {dtype} {shape} in the instance.",
            "This layer's weights change after loading in a way that cannot be shared: serve the checkpoint unshared.",
        )


def _checked(model: nn.Module, segment: torch.Tensor) -> int:
    """Bytes outside the segment. Raises SharedWeightsError for a private parameter or large buffer, and for meta."""
    private_bytes = 0
    for one in tensors_of(model):
        if one.tensor.is_meta:
            raise SharedWeightsError(f"{one.name} has no memory at all.", "Report this architecture; it is not served.")
        if one.tensor.nbytes == 0 or lies_inside(one.tensor, segment):
            continue
        if one.kind == "parameter" or one.tensor.nbytes >= _PRIVATE_BUFFER_BYTES:
            raise SharedWeightsError(
                f"{one.name} ({one.tensor.nbytes} bytes) was copied out of the shared segment while the model was"
                " finished.",
                "Report this architecture; serve it unshared until it is supported.",
            )
        private_bytes += one.tensor.nbytes
    _refuse_hidden_meta(model)
    return private_bytes


def _refuse_hidden_meta(model: nn.Module) -> None:
    """Some modules keep a device or tensor as a plain attribute; on meta it fails at the first image."""
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            is_meta_tensor = isinstance(value, torch.Tensor) and value.is_meta
            if is_meta_tensor or (isinstance(value, torch.device) and value.type == "meta"):
                raise SharedWeightsError(
                    f"{name}.{attribute} was left on the meta device.", "Report this architecture; it is not served."
                )


def _keep(segment: transports.Segment, attachment: Attachment, *, outlives_owner: bool) -> None:
    """Mapping and lease live as long as this process."""
    watching = threading.Thread(target=_watch, args=(attachment.lease, outlives_owner), daemon=True)
    _KEPT.append((segment, attachment.lease))
    watching.start()


def _watch(lease: socket.socket, outlives_owner: bool) -> None:
    try:
        while lease.recv(4096):
            pass
    except OSError:
        pass
    if outlives_owner:
        log.warning("the weight store has gone; this instance serves on with the weights it has mapped")
        return
    log.error("the weight store has gone and its device memory with it: this instance ends at once")
    os._exit(_STORE_GONE)
