"""A real vLLM server on CPU in its own process group, and what one asks it."""

from __future__ import annotations

import base64
import io
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from PIL import Image, ImageDraw

START_SECONDS = 420  # 30 on a quiet machine; tests never assert a time

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "2",
}
FLAGS = (
    "--dtype=bfloat16",
    "--max-model-len=2048",
    "--enforce-eager",
    '--limit-mm-per-prompt={"image": 1}',
    "--mm-processor-cache-gb=0",
    "--no-enable-prefix-caching",
    f"--kv-cache-memory-bytes={128 << 20}",
    "--max-num-seqs=8",
)


@dataclass(frozen=True)
class RealVllm:
    """A running server. `url` has no path, `model` is what requests must name."""

    url: str
    model: str
    checkpoint: Path
    log_file: Path
    process: subprocess.Popen[bytes]

    def read(self, image: Image.Image, **parameters: Any) -> Reading:
        """The answer to one page image, greedy and without a prompt, as LightOnOCR is asked."""
        answer = httpx.post(
            f"{self.url}/v1/chat/completions", json=chat_request(self.model, image, **parameters), timeout=300
        )
        answer.raise_for_status()
        choice = answer.json()["choices"][0]
        tokens = choice["logprobs"]["content"]
        return Reading(
            choice["message"]["content"],
            tuple(token["token"] for token in tokens),
            tuple(token["logprob"] for token in tokens),
        )


@dataclass(frozen=True)
class Reading:
    """What a server read: text, tokens, and the log-probability of each."""

    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]


def chat_request(model: str, image: Image.Image, **parameters: Any) -> dict[str, Any]:
    """An OpenAI chat request that holds one image and nothing else, temperature 0."""
    part = {"type": "image_url", "image_url": {"url": data_url(image)}}
    asked = {"temperature": 0, "max_tokens": 32, "ignore_eos": True, "logprobs": True, "top_logprobs": 0}
    return {"model": model, "messages": [{"role": "user", "content": [part]}], **asked, **parameters}


def data_url(image: Image.Image) -> str:
    """The image as a PNG in a data: URL."""
    packed = io.BytesIO()
    image.save(packed, "PNG")
    return "data:image/png;base64," + base64.b64encode(packed.getvalue()).decode()


def page_image(number: int, size: tuple[int, int] = (300, 220)) -> Image.Image:
    """A white page with a few lines that depend on `number`."""
    page = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(page)
    for line in range(max(1, size[1] // 34)):
        draw.text((10, 10 + 30 * line), f"Invoice {number} line {line} total {line * number}", fill="black")
    return page


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start_vllm(
    python: Path, checkpoint: Path, log_file: Path, flags: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> RealVllm:
    """Starts `vllm serve` and waits until it has read an image. Raises RuntimeError with the log's end."""
    port = free_port()
    serve = [str(python.parent / "vllm"), "serve", str(checkpoint), "--served-model-name=ocr", "--host=127.0.0.1"]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [*serve, f"--port={port}", *FLAGS, *flags],
            env={**os.environ, **OFFLINE, **(environ or {})},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = RealVllm(f"http://127.0.0.1:{port}", "ocr", checkpoint, log_file, process)
    try:
        _wait_until_healthy(server)
        server.read(page_image(0))
    except BaseException:
        stop_vllm(server)
        raise
    return server


def _wait_until_healthy(server: RealVllm) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/health", timeout=10).status_code == 200:
                return
        time.sleep(0.5)
    raise RuntimeError(f"vLLM did not get ready:\n{server.log_file.read_text()[-6000:]}")


def stop_vllm(server: RealVllm) -> None:
    """Ends the whole group: the engine's processes outlive `vllm serve` when only that is killed."""
    with suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.process.wait(timeout=30)
    with suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
