"""The loader: builds the model once with vLLM's ordinary loader, fills a segment, seals it, tells the store, ends.

Started by the store, in vLLM's environment. With cuda_ipc it stays, since its memory is what the readers map.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import checkpoints, transports
from .building import as_shared, identity, refuse_unshareable
from .faults import SharedWeightsError
from .manifest import Manifest
from .packing import fill, laid_out, tensors_of
from .wire import BrokenConversation, receive, send

if TYPE_CHECKING:
    import torch


def main(arguments: Sequence[str] | None = None) -> int:
    """Says over the channel what it made, or why it could not."""
    parser = argparse.ArgumentParser(prog="ocr_shared_weights.loader")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--transport", required=True)
    parser.add_argument("--engine-args", type=json.loads, default=[])
    parser.add_argument("--channel", type=int, required=True)
    given = parser.parse_args(arguments)
    with socket.socket(fileno=given.channel) as channel:
        try:
            segment = _publish(channel, given)
        except SharedWeightsError as error:
            send(channel, {"ok": False, "message": error.message, "remedy": error.remedy})
            return 3
        if not transports.named(given.transport).outlives_owner:
            export_for_ever(channel, segment)
    return 0


def _publish(channel: socket.socket, given: argparse.Namespace) -> transports.NewSegment:
    started = time.monotonic()
    transport = transports.named(given.transport)
    checkpoint = checkpoints.described(given.checkpoint)
    hashed = time.monotonic()
    vllm_config = _configured(given.checkpoint, given.engine_args)
    device = str(vllm_config.device_config.device)
    transports.refuse_wrong_device(transport.name, device)
    mine = identity(vllm_config, vllm_config.model_config, device)  # before building: some models change it then
    model = _built(vllm_config, device)
    layout = laid_out(tensors_of(model))
    built = time.monotonic()
    segment = transport.create(layout.total_bytes, device)
    entries = fill(segment.tensor, layout)
    segment.seal()
    manifest = Manifest(
        checkpoint=checkpoint,
        identity=mine,
        tensors=entries,
        ties=layout.ties,
        total_bytes=layout.total_bytes,
        transport=transport.name,
        made_at=time.time(),
        loading={
            "hash_seconds": hashed - started,
            "build_seconds": built - hashed,
            "fill_seconds": time.monotonic() - built,
        },
    )
    handle = segment.export() if transport.outlives_owner else transports.Handle()
    send(channel, {"ok": True, "manifest": manifest.to_json(), "handle": dict(handle.values)}, handle.descriptor)
    return segment


def _configured(checkpoint: Path, engine_args: list[str]) -> Any:
    """VLLM's configuration as its command line makes it of the instances' options. Raises SharedWeightsError."""
    import torch
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    options = parser.parse_args([f"--model={checkpoint}", *engine_args])
    options.load_format, options.model_loader_extra_config = "auto", {}
    vllm_config = EngineArgs.from_cli_args(options).create_engine_config()
    refuse_unshareable(vllm_config, vllm_config.model_config)
    if str(vllm_config.device_config.device).startswith("cuda"):
        torch.accelerator.set_device_index(0)
    return vllm_config


def _built(vllm_config: Any, device: str) -> torch.nn.Module:
    """The model, in a world of one process as an instance's worker would have."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment
    from vllm.platforms import current_platform

    with tempfile.TemporaryDirectory(prefix="ocr-weights-") as folder, set_current_vllm_config(vllm_config):
        init_distributed_environment(
            world_size=1,
            rank=0,
            local_rank=0,
            distributed_init_method=f"file://{folder}/rendezvous",
            backend=current_platform.dist_backend,
        )
        ensure_model_parallel_initialized(1, 1)
        return _loaded(vllm_config, device)


def _loaded(vllm_config: Any, device: str) -> torch.nn.Module:
    """What DefaultModelLoader.load_model does; that itself asks for an accelerator, and fails in a loader on CPU."""
    import torch
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
    from vllm.model_executor.model_loader.utils import initialize_model, process_weights_after_loading
    from vllm.utils.torch_utils import set_default_torch_dtype

    model_config = vllm_config.model_config
    with set_default_torch_dtype(model_config.dtype):
        with torch.device(device):
            model = initialize_model(vllm_config=vllm_config, model_config=model_config)
        DefaultModelLoader(vllm_config.load_config).load_weights(model, model_config)
        with as_shared(device):
            process_weights_after_loading(model, model_config, torch.device(device))
    return model.eval()


def export_for_ever(channel: socket.socket, segment: transports.NewSegment) -> None:
    """Answers the store, which needs a new export for each reader, until it goes."""
    try:
        while receive(channel).body.get("ask") == "export":
            send(channel, {"ok": True, "handle": dict(segment.export().values)})
    except (OSError, BrokenConversation):
        return


if __name__ == "__main__":
    sys.exit(main())
