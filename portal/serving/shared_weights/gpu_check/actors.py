"""The processes of the check: the store's loader, readers, and one that loads without sharing.

`python -m ocr_shared_weights.gpu_check.actors ROLE …` prints one JSON line for each thing it has done, and obeys one
line of standard input at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import transports
from ..client import attach
from ..loader import export_for_ever
from ..manifest import Checkpoint, Manifest
from ..packing import NamedTensor, fill, laid_out, views
from ..wire import send
from .model import block_count, fingerprint, forward, page, random_weights

if TYPE_CHECKING:
    import torch

STORE_GONE = 70


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one role until its input ends."""
    parser = argparse.ArgumentParser(prog="ocr_shared_weights.gpu_check.actors")
    parser.add_argument("role", choices=("loader", "reader", "alone", "empty"))
    parser.add_argument("--device", required=True)
    parser.add_argument("--megabytes", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5, help="how long `many` lasts")
    parser.add_argument("--transport", default="")
    parser.add_argument("--socket", type=Path)
    parser.add_argument("--channel", type=int)
    given = parser.parse_args(arguments)
    if given.role == "loader":
        _load(given)
    elif given.role == "empty":
        _say("ready", context=_touch(given.device))
        sys.stdin.readline()
    else:
        weights, took = _attached(given) if given.role == "reader" else _alone(given)
        _say("ready", seconds=took)
        _obey(weights, given)
    return 0


def _load(given: argparse.Namespace) -> None:
    transport = transports.named(given.transport)
    weights = random_weights(block_count(given.megabytes), given.device)
    layout = laid_out([NamedTensor(name, "parameter", one) for name, one in weights.items()])
    segment = transport.create(layout.total_bytes, given.device)
    entries = fill(segment.tensor, layout)
    segment.seal()
    del weights
    nothing = Checkpoint("random weights", "", ())
    made = Manifest(nothing, {}, entries, {}, layout.total_bytes, given.transport, time.time())
    handle = segment.export() if transport.outlives_owner else transports.Handle()
    with socket.socket(fileno=given.channel) as channel:
        answer = {"ok": True, "manifest": made.to_json(), "handle": dict(handle.values)}
        send(channel, answer, handle.descriptor)
        if not transport.outlives_owner:
            export_for_ever(channel, segment)


def _attached(given: argparse.Namespace) -> tuple[dict[str, torch.Tensor], float]:
    _touch(given.device)
    started = time.monotonic()
    attachment = attach(given.socket, name=f"check {os.getpid()}", wait_seconds=60)
    manifest = attachment.manifest
    transport = transports.named(manifest.transport)
    segment = transport.attach(attachment.handle, manifest.total_bytes, given.device)
    weights = {entry.name: view for entry, view in views(segment.tensor, manifest.tensors)}
    took = time.monotonic() - started
    if not transport.outlives_owner:
        threading.Thread(target=_end_with_store, args=(attachment.lease,), daemon=True).start()
    _kept.append((segment, attachment))
    return weights, took


_kept: list[object] = []


def _end_with_store(lease: socket.socket) -> None:
    while lease.recv(4096):
        pass
    os._exit(STORE_GONE)


def _alone(given: argparse.Namespace) -> tuple[dict[str, torch.Tensor], float]:
    """Its own copy; the time is that of a copy from pageable host memory, the least that an ordinary load takes."""
    made = {name: one.cpu() for name, one in random_weights(block_count(given.megabytes), given.device).items()}
    started = time.monotonic()
    weights = {name: one.to(given.device, copy=True) for name, one in made.items()}
    _synchronise(given.device)
    return weights, time.monotonic() - started


def _obey(weights: dict[str, torch.Tensor], given: argparse.Namespace) -> None:
    import torch

    device, blocks = given.device, block_count(given.megabytes)
    deeds: dict[str, Callable[[], dict[str, Any]]] = {
        "read": lambda: {"fingerprint": fingerprint(forward(weights, page(device), blocks))},
        "write": lambda: _write(weights, device),
        "graph": lambda: _graph(weights, device, blocks),
        "compile": lambda: _compiled(weights, device, blocks),
        "many": lambda: _many(weights, device, blocks, given.seconds),
    }
    with torch.inference_mode():
        for line in sys.stdin:
            _say(line.strip(), **deeds[line.strip()]())


def _write(weights: dict[str, torch.Tensor], device: str) -> dict[str, Any]:
    """On a read-only mapping this process must not come back from here."""
    next(iter(weights.values())).view(-1)[:1024].add_(1)
    _synchronise(device)
    return {"written": True}


def _graph(weights: dict[str, torch.Tensor], device: str, blocks: int) -> dict[str, Any]:
    import torch

    given = page(device)
    forward(weights, given, blocks)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = forward(weights, given, blocks)
    graph.replay()
    torch.cuda.synchronize()
    return {"fingerprint": fingerprint(result), "eager": fingerprint(forward(weights, page(device), blocks))}


def _compiled(weights: dict[str, torch.Tensor], device: str, blocks: int) -> dict[str, Any]:
    """One block is compiled: what matters is that compiled kernels read mapped memory."""
    import torch

    expected = forward(weights, page(device), 1)
    found = torch.compile(forward)(weights, page(device), 1)
    return {"difference": float((expected.float() - found.float()).abs().max()), "blocks": blocks}


def _many(weights: dict[str, torch.Tensor], device: str, blocks: int, seconds: float) -> dict[str, Any]:
    given = page(device)
    forward(weights, given, blocks)
    _synchronise(device)
    started, passes = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        forward(weights, given, blocks)
        _synchronise(device)
        passes += 1
    return {"passes_per_second": passes / (time.monotonic() - started)}


def _touch(device: str) -> bool:
    """Makes the context, with the library that every matrix product needs."""
    import torch

    one = torch.ones((16, 16), device=device, dtype=torch.bfloat16)
    (one @ one).sum().item()
    return True


def _synchronise(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _say(what: str, **values: Any) -> None:
    sys.stdout.write(json.dumps({"done": what, **values}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
