"""The plugin as the wheel that an operator installs, and stores filled by a real vLLM."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from portal.serving.shared_weights import client
from portal.serving.shared_weights.faults import SharedWeightsError
from tests.running_portal import ROOT
from tests.vllm.servers import OFFLINE, START_SECONDS, RealVllm, start_vllm

SOURCE = ROOT / "portal" / "serving" / "shared_weights"
ENGINE_ARGS = ("--dtype=bfloat16", "--max-model-len=2048", "--enforce-eager")


@dataclass(frozen=True)
class SharedVllm:
    """vLLM's Python, and the folder where the plugin's wheel is installed."""

    python: Path
    plugin: Path

    @property
    def environ(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.plugin)}

    def start(self, checkpoint: Path, socket: Path, log_file: Path, **options: object) -> RealVllm:
        """An instance that reads the store's weights."""
        asked = json.dumps({"socket": str(socket), **options})
        flags = ["--load-format=shared", f"--model-loader-extra-config={asked}"]
        return start_vllm(self.python, checkpoint, log_file, flags, self.environ)

    def start_unshared(self, checkpoint: Path, log_file: Path) -> RealVllm:
        """An ordinary instance with its own weights, but linear layers that compute as shared ones do."""
        environ = {**self.environ, "OCR_SHARED_WEIGHTS_PLAIN_LINEAR": "1"}
        return start_vllm(self.python, checkpoint, log_file, environ=environ)


@dataclass(frozen=True)
class VllmStore:
    """A running store."""

    socket: Path
    log_file: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def install_plugin(python: Path, folder: Path) -> SharedVllm:
    """Builds the wheel from a copy (building leaves files behind) and installs it into a folder of its own."""
    source = Path(shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__")))
    target = folder / "plugin"
    install = [str(python), "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(target), str(source)], check=True)
    return SharedVllm(python, target)


def start_store(shared: SharedVllm, checkpoint: Path, folder: Path) -> VllmStore:
    """Starts a store and waits until it is ready."""
    socket = folder / "run" / "weights.sock"
    log_file = folder / "store.log"
    options = ["--socket", str(socket), "--checkpoint", str(checkpoint), "--transport", "memfd"]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [str(shared.python), "-m", "ocr_shared_weights.store", *options, "--engine-args", json.dumps(ENGINE_ARGS)],
            env={**os.environ, **OFFLINE, **shared.environ},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    store = VllmStore(socket, log_file, process)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(SharedWeightsError):
            client.status(socket)
            return store
        time.sleep(0.2)
    store.stop()
    raise RuntimeError(f"the store did not get ready:\n{log_file.read_text()[-4000:]}")
