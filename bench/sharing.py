"""One weight copy for 1, 2 and 4 instances: memory, loading, and whether more instances pay. Real vLLM on CPU.

Run by `make bench-sharing`: the checkpoint has 353 million random parameters in the shape of LightOnOCR. The number of
pages under way is the same for all sizes (8), so that instances compete with one instance that batches as many.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from PIL import Image

from portal.serving import process_memory
from portal.serving.shared_weights import client
from tests.vllm.fleets import RealFleet, Size
from tests.vllm.servers import chat_request, page_image, start_vllm, stop_vllm
from tests.vllm.sharing import SharedVllm, install_plugin

_TOGETHER = 8
_REPORT = re.compile(
    r"shared weights: .* ([\d.]+) MB private; attach ([\d.]+) s, verify ([\d.]+) s, build ([\d.]+) s,"
    r" point and finish ([\d.]+) s, together ([\d.]+) s"
)
_PLAIN_LOADING = re.compile(r"Loading weights took ([\d.]+) seconds")


def main(arguments: Sequence[str]) -> int:
    """Prints a row for each size. Needs VLLM_PYTHON, which `make bench-sharing` sets."""
    parser = argparse.ArgumentParser(prog="bench sharing")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--instances", default="1,2,4")
    parser.add_argument("--checkpoint-size", default="mid")
    given = parser.parse_args(arguments)
    named = os.environ.get("VLLM_PYTHON")
    if not named:
        print("There is no vLLM here. Run it by `make bench-sharing`.")
        return 1
    with tempfile.TemporaryDirectory(prefix="bench-sharing-") as scratch:
        folder = Path(scratch)
        shared = install_plugin(Path(named), folder)
        checkpoint = folder / "checkpoint"
        maker = Path(__file__).resolve().parents[1] / "tests" / "vllm" / "checkpoints.py"
        subprocess.run([named, str(maker), str(checkpoint), given.checkpoint_size], check=True)
        print(f"{given.pages} mixed pages, {_TOGETHER} under way, {os.cpu_count()} cores\n")
        _print_plain(shared, checkpoint, folder)
        for count in (int(part) for part in given.instances.split(",")):
            _print_size(shared, checkpoint, folder / f"fleet-{count}", count, given.pages)
    return 0


def mixed_pages(count: int) -> list[Image.Image]:
    """Sizes and aspect ratios from stamps to long receipts, the same on each run."""
    draw = random.Random(5)
    sizes = [(draw.randint(40, 900), draw.randint(40, 900)) for _ in range(count)]
    return [page_image(number, size) for number, size in enumerate(sizes)]


def _print_plain(shared: SharedVllm, checkpoint: Path, folder: Path) -> None:
    log = folder / "plain.log"
    server = start_vllm(shared.python, checkpoint, log)
    try:
        family = process_memory.family(server.process.pid)
        unique = process_memory.unique_bytes(family)
    finally:
        stop_vllm(server)
    found = _PLAIN_LOADING.search(log.read_text())
    print(
        f"unshared: loading {found[1] if found else '?'} s, unique memory {unique / 1e6:.0f} MB {_load()}", flush=True
    )


def _print_size(shared: SharedVllm, checkpoint: Path, folder: Path, count: int, pages: int) -> None:
    folder.mkdir()
    size = Size(instances=count, sequences=_TOGETHER // count, threads=max(1, (os.cpu_count() or 1) // count))
    fleet = RealFleet(shared, checkpoint, folder, size)
    try:
        found = fleet.wait_until_ready()
        seconds, failed = _read(fleet.url, mixed_pages(pages))
        inode, copy_bytes = _segment(Path(folder / "run" / "store" / "weights.sock"))
        reports = [_report(folder / "run" / "logs" / f"instance-{number}.log") for number in range(count)]
        held = process_memory.segment_bytes(inode) + sum(report[0] * 1e6 for report in reports)
        families = [process_memory.family(one["pid"]) for one in found["instances"]]
        total = sum(process_memory.proportional_bytes(family) for family in families)
        holder = process_memory.proportional_bytes([found["store"]["pid"]])
    finally:
        fleet.stop()
    elapsed, each = seconds
    ordered = sorted(each)
    print(
        f"{count} instances × {size.sequences} sequences: {pages / elapsed:.2f} pages/s,"
        f" P50 {statistics.median(ordered):.1f} s, P95 {ordered[int(len(ordered) * 0.95)]:.1f} s, {failed} failed;"
        f" weights held {held / copy_bytes:.3f} copies of {copy_bytes / 1e6:.0f} MB, store {holder / 1e6:.0f} MB,"
        f" all instances {total / 1e6:.0f} MB;"
        f" loading {max(report[1] for report in reports):.3f} s"
        f" (attach {max(report[2] for report in reports):.3f}) {_load()}",
        flush=True,
    )


def _segment(socket: Path) -> tuple[int, int]:
    attachment = client.attach(socket, name="bench")
    with attachment.lease:
        descriptor = attachment.handle.descriptor
        if descriptor is None:
            raise RuntimeError("the store lent no memory of the host")
        inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
    return inode, attachment.manifest.total_bytes


def _report(log: Path) -> tuple[float, float, float]:
    """Private megabytes; seconds of loading, with the model built and its weights attached; of these, of attaching."""
    found = _REPORT.search(log.read_text())
    if found is None:
        raise RuntimeError(f"{log} says nothing of shared weights")
    private, attach, verify, build, finish, _ = (float(part) for part in found.groups())
    return private, attach + verify + build + finish, attach


def _read(url: str, pages: list[Image.Image]) -> tuple[tuple[float, list[float]], int]:
    """Elapsed seconds, seconds of each page, and how many failed."""

    def one(page: Image.Image) -> tuple[float, bool]:
        started = time.monotonic()
        asked = chat_request("ocr", page, max_tokens=24, logprobs=False, top_logprobs=None)
        answer = httpx.post(f"{url}/v1/chat/completions", json=asked, timeout=900)
        return time.monotonic() - started, answer.status_code == 200

    started = time.monotonic()
    with ThreadPoolExecutor(_TOGETHER) as pool:
        results = list(pool.map(one, pages))
    return (time.monotonic() - started, [seconds for seconds, _ in results]), sum(not well for _, well in results)


def _load() -> str:
    return f"(load {os.getloadavg()[0]:.1f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
