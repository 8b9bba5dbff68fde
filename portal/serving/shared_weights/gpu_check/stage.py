"""Stores and readers of the check as processes that can be asked, killed and counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..client import status
from ..faults import SharedWeightsError

_PACKAGE = (__package__ or "").rpartition(".")[0]
_START_SECONDS = 120
_SETTLE_SECONDS = 15


class Actor:
    """A process that obeys one word at a time."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
        )
        self.first = self._heard()

    def order(self, word: str) -> None:
        """Says it and does not wait."""
        stdin = self.process.stdin
        if stdin is not None:
            stdin.write(word + "\n")
            stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """What it has done; None when it died over it."""
        return self._heard()

    def ask(self, word: str) -> dict[str, Any] | None:
        """Says it and waits."""
        self.order(word)
        return self._heard()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _heard(self) -> dict[str, Any] | None:
        stdout = self.process.stdout
        line = stdout.readline() if stdout is not None else ""
        if not line:
            self.process.wait()
            return None
        heard: dict[str, Any] = json.loads(line)
        return heard


@dataclass
class Stage:
    """A folder, a device, a size; and all processes that are on it."""

    device: str
    megabytes: int
    folder: Path
    seconds: float = 5
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    actors: list[Actor] = field(default_factory=list)
    stores: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def is_cuda(self) -> bool:
        """Whether this runs on a card."""
        return self.device.startswith("cuda")

    def store(self, transport: str) -> Path:
        """Starts one and waits until it stands; gives its socket. Raises SharedWeightsError."""
        socket = self.folder / f"{transport}-{len(self.stores)}" / "weights.sock"
        loader = json.dumps([*self._actor("loader"), "--transport", transport])
        options = ["--socket", str(socket), "--checkpoint", "random", "--transport", transport, "--loader", loader]
        with (self.folder / f"{transport}.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", f"{_PACKAGE}.store", *options],
                env=self.environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.stores.append(process)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                status(socket)
            except SharedWeightsError:
                time.sleep(0.1)
            else:
                return socket
        said = (self.folder / f"{transport}.log").read_text()[-1500:]
        raise SharedWeightsError(f"The store by {transport} did not get ready: {said}", "See its reason.")

    def reader(self, socket: Path) -> Actor:
        """One that has attached."""
        return self._on_stage([*self._actor("reader"), "--socket", str(socket)])

    def alone(self) -> Actor:
        """One with its own copy."""
        return self._on_stage(self._actor("alone"))

    def empty(self) -> Actor:
        """One with a context and nothing else."""
        return self._on_stage(self._actor("empty"))

    def kill_store(self) -> None:
        """SIGKILL for the last one and its loader."""
        process = self.stores[-1]
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            process.wait()

    def clear(self) -> None:
        """Ends everybody."""
        for actor in self.actors:
            actor.kill()
        self.actors.clear()
        if self.stores:
            self.kill_store()

    def free_bytes(self) -> int:
        """Free memory of the card, once it does not change any more (the driver frees a dead process's a bit later).

        This process's own context is in all such figures alike. On a MIG slice it is the slice's.
        """
        import torch

        before, now = -1, torch.cuda.mem_get_info(0)[0]
        deadline = time.monotonic() + _SETTLE_SECONDS
        while before != now and time.monotonic() < deadline:
            time.sleep(0.5)
            before, now = now, torch.cuda.mem_get_info(0)[0]
        return int(now)

    def _on_stage(self, command: list[str]) -> Actor:
        self.actors.append(Actor(command, self.environ))
        return self.actors[-1]

    def _actor(self, role: str) -> list[str]:
        size = ["--device", self.device, "--megabytes", str(self.megabytes), "--seconds", str(self.seconds)]
        return [sys.executable, "-m", f"{_PACKAGE}.gpu_check.actors", role, *size]


@contextmanager
def staged(device: str, megabytes: int, seconds: float) -> Iterator[Stage]:
    """A stage that is empty again afterwards."""
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        stage = Stage(device, megabytes, Path(folder), seconds)
        try:
            yield stage
        finally:
            stage.clear()
