"""The check's story and its table."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..faults import SharedWeightsError
from .actors import STORE_GONE
from .model import BLOCK_BYTES, block_count
from .stage import Stage, staged

_SLACK_BYTES = 64 << 20
_MPS = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class Line:
    """One thing that was looked at. `is_right` None: it was not run, and `found` says why."""

    what: str
    transport: str
    found: str
    is_right: bool | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Status 1 when something is not as promised."""
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__)
    parser.add_argument("--device", default="cuda:0", help="cuda:0, or cpu to try the check itself")
    parser.add_argument("--megabytes", type=int, default=2000, help="size of the weights")
    parser.add_argument("--seconds", type=float, default=5, help="how long each measurement of throughput lasts")
    parser.add_argument("--json", type=Path, help="also write the result there")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    lines: list[Line] = []
    with staged(given.device, given.megabytes, given.seconds) as stage:
        for transport in ("cuda_vmm", "cuda_ipc") if stage.is_cuda else ("memfd",):
            for check in _CHECKS:
                lines += _carried_out(check, stage, transport)
        lines += _with_mps(stage) if stage.is_cuda else []
    card = _name(given.device)
    _print(card, given.megabytes, lines, time.monotonic() - started)
    if given.json:
        found = {"card": card, "megabytes": given.megabytes, "lines": [asdict(line) for line in lines]}
        given.json.write_text(json.dumps(found, indent=1))
    return int(any(line.is_right is False for line in lines))


def one_copy(stage: Stage, transport: str) -> Iterator[Line]:
    """Free memory with a store and four readers, less what four empty contexts take."""
    if not stage.is_cuda:
        yield Line("copies in memory with 4 readers", transport, "not run: needs a card", None)
        return
    before = stage.free_bytes()
    empty = [stage.empty() for _ in range(4)]
    context = (before - stage.free_bytes()) / 4
    for actor in empty:
        actor.kill()
    yield Line("context of one process", transport, f"{context / 1e6:.0f} MB", True)
    socket = stage.store(transport)
    alone = before - stage.free_bytes()
    readers = [stage.reader(socket) for _ in range(4)]
    taken = before - stage.free_bytes() - 4 * context
    yield Line("store alone takes", transport, f"{alone / 1e6:.0f} MB", None)
    for actor in readers:
        actor.kill()
    owner_context = 0 if transport == "cuda_vmm" else context
    copies = (taken - owner_context) / _weights_bytes(stage)
    yield Line("copies in memory with 4 readers", transport, f"{copies:.2f}", copies < 1.1)


def same_outputs(stage: Stage, transport: str) -> Iterator[Line]:
    """Bit for bit those of a process with its own copy; and how long attaching takes."""
    socket = stage.store(transport)
    reader, alone = stage.reader(socket), stage.alone()
    attach, load = _first(reader)["seconds"], _first(alone)["seconds"]
    yield Line("attach; the least an ordinary load takes", transport, f"{attach:.3f} s; {load:.3f} s", attach < 0.5)
    shared, own = reader.ask("read"), alone.ask("read")
    yield Line("outputs equal an unshared model's", transport, "equal" if shared == own else "differ", shared == own)


def writes_fault_the_writer(stage: Stage, transport: str) -> Iterator[Line]:
    """A write to a read-only mapping ends the writer, and another reader's next output is as before."""
    if transport == "cuda_ipc":
        yield Line("a write faults only the writer", transport, "not promised: its memory is writable", None)
        return
    socket = stage.store(transport)
    good, bad = stage.reader(socket), stage.reader(socket)
    before = good.ask("read")
    survived = bad.ask("write") is not None
    after = good.ask("read")
    found = "the write went through" if survived else "the writer ended, the other reads on"
    yield Line(
        "a write faults only the writer", transport, found, not survived and before is not None and before == after
    )


def owner_killed(stage: Stage, transport: str) -> Iterator[Line]:
    """Readers go on where the memory outlives its owner, and end by themselves where it does not."""
    socket = stage.store(transport)
    reader = stage.reader(socket)
    before = reader.ask("read")
    stage.kill_store()
    if transport != "cuda_ipc":
        after = reader.ask("read")
        is_right = before is not None and before == after
        yield Line("store killed", transport, "readers read on" if is_right else "readers were harmed", is_right)
        return
    status = reader.process.wait(timeout=30)
    yield Line("store killed", transport, f"the reader ended with status {status}", status == STORE_GONE)


def graphs_and_compilation(stage: Stage, transport: str) -> Iterator[Line]:
    """A captured graph replays on mapped weights, and compiled code reads them."""
    if not stage.is_cuda:
        yield Line("CUDA graph and torch.compile", transport, "not run: needs a card", None)
        return
    reader = stage.reader(stage.store(transport))
    graph = reader.ask("graph")
    is_right = graph is not None and graph["fingerprint"] == graph["eager"]
    yield Line("CUDA graph on mapped weights", transport, "equals eager" if is_right else f"{graph}", is_right)
    compiled = reader.ask("compile")
    difference = compiled["difference"] if compiled else float("inf")
    yield Line("torch.compile on mapped weights", transport, f"differs by {difference:.3g} at most", difference < 0.1)


def memory_comes_back(stage: Stage, transport: str) -> Iterator[Line]:
    """After SIGKILL of readers and store the card is as empty as before."""
    if not stage.is_cuda:
        yield Line("memory back after a crash", transport, "not run: needs a card", None)
        return
    before = stage.free_bytes()
    socket = stage.store(transport)
    for reader in [stage.reader(socket) for _ in range(2)]:
        reader.ask("read")
    stage.clear()
    missing = before - stage.free_bytes()
    yield Line("memory back after a crash", transport, f"{missing / 1e6:.0f} MB missing", missing < _SLACK_BYTES)


def throughput(stage: Stage, transport: str) -> Iterator[Line]:
    """Passes a second of 1, 2 and 4 readers together."""
    socket = stage.store(transport)
    found = []
    for count in (1, 2, 4):
        readers = [stage.reader(socket) for _ in range(count)]
        for reader in readers:
            reader.order("many")
        rates = [(reader.answer() or {"passes_per_second": 0.0})["passes_per_second"] for reader in readers]
        found.append(f"{count}: {sum(rates):.1f}")
        for reader in readers:
            reader.kill()
    yield Line("passes a second of 1, 2, 4 readers together", transport, "; ".join(found), None)


_CHECKS: tuple[Callable[[Stage, str], Iterator[Line]], ...] = (
    one_copy,
    same_outputs,
    writes_fault_the_writer,
    owner_killed,
    graphs_and_compilation,
    memory_comes_back,
    throughput,
)


def _carried_out(check: Callable[[Stage, str], Iterator[Line]], stage: Stage, transport: str) -> list[Line]:
    lines: list[Line] = []
    try:
        lines += check(stage, transport)
    except (SharedWeightsError, subprocess.TimeoutExpired) as error:
        lines.append(Line(check.__name__.replace("_", " "), transport, str(error)[:300], False))
    finally:
        stage.clear()
    return lines


def _with_mps(stage: Stage) -> list[Line]:
    """The same throughput, and what a faulty write does to others, under MPS."""
    if shutil.which(_MPS) is None:
        return [Line("the same with MPS", "cuda_vmm", f"not run: no {_MPS} here", None)]
    lines: list[Line] = []
    with _mps(stage):
        for check in (throughput, writes_fault_the_writer):
            lines += _carried_out(check, stage, "cuda_vmm")
    # Under MPS a fault may reach all clients: that is what the line is there to show, not a failure of the check.
    return [Line(f"with MPS: {line.what}", line.transport, line.found, None) for line in lines]


@contextmanager
def _mps(stage: Stage) -> Iterator[None]:
    folder = stage.folder / "mps"
    folder.mkdir()
    stage.environ |= {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    subprocess.run([_MPS, "-d"], env=stage.environ, check=False, timeout=30)  # noqa: S603
    try:
        yield
    finally:
        subprocess.run([_MPS], input=b"quit\n", env=stage.environ, check=False, timeout=60)  # noqa: S603


def _first(actor: Any) -> dict[str, Any]:
    if actor.first is None:
        raise SharedWeightsError(f"A process ended with {signal_name(actor.process.returncode)}.", "Try it alone.")
    first: dict[str, Any] = actor.first
    return first


def signal_name(status: int) -> str:
    """`SIGSEGV` for -11, `status 1` for 1."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _weights_bytes(stage: Stage) -> int:
    return block_count(stage.megabytes) * BLOCK_BYTES


def _name(device: str) -> str:
    import torch

    return str(torch.cuda.get_device_name(0)) if device.startswith("cuda") else "CPU"


def _print(card: str, megabytes: int, lines: list[Line], seconds: float) -> None:
    marks = {True: "ok", False: "WRONG", None: "–"}
    rows = [f"{marks[line.is_right]:<6} {line.transport:<9} {line.what:<46} {line.found}" for line in lines]
    sys.stdout.write(f"{card}, {megabytes} MB of weights, {seconds:.0f} s\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
