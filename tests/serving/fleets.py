"""A fleet of stand-ins: real supervisor and store, instances and a router that start at once and fail on command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from portal.errors import PortalError
from portal.serving.control_client import FleetControl
from tests.running_portal import ROOT

_SIZES_AND_PATIENCE = """
[engine]
max_model_len = 64
kv_cache = "1 MiB"
[card]
memory = "64 GiB"
[patience]
start_seconds = 60
hang_seconds = 4
drain_seconds = 20
stop_seconds = 5
probe_seconds = 0.5
first_backoff_seconds = 0.05
failures = 3
"""

_PYTHON = """#!/bin/sh
shift 2
loader='["{python}", "-m", "tests.serving.fake_loader", "good", "{folder}/loader-pid"]'
exec {python} -m portal.serving.shared_weights.store "$@" --loader "$loader"
"""
_PROGRAM = '#!/bin/sh\nexec {python} -m tests.serving.{module} "$@"\n'


@dataclass
class FakeFleet:
    """A folder with a configuration that works, and the supervisor that was started on it."""

    folder: Path
    instances: int = 2
    process: subprocess.Popen[bytes] | None = None
    ports: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_checkpoint()
        (self.folder / "bin").mkdir()
        self._write_program("python", _PYTHON)
        self._write_program("vllm", _PROGRAM.replace("{module}", "fake_vllm"))
        self._write_program("vllm-router", _PROGRAM.replace("{module}", "fake_router"))
        top, self.ports = fleet_file_top(
            self.folder / "checkpoint", self.folder / "bin" / "python", self.folder / "run", self.instances
        )
        self.config.write_text(top + _SIZES_AND_PATIENCE)

    @property
    def config(self) -> Path:
        return self.folder / "fleet.toml"

    @property
    def control(self) -> FleetControl:
        return FleetControl(socket_path=self.folder / "run" / "control.sock")

    @property
    def log(self) -> str:
        return (self.folder / "up.log").read_text()

    def up(self) -> FakeFleet:
        """Starts the supervisor; does not wait."""
        with (self.folder / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "app.py"), "fleet", "up", "--config", str(self.config)],
                env={**os.environ, "PYTHONPATH": str(ROOT), "PORTAL_SECRET": "must not be inherited"},
                stdout=log,
                stderr=log,
            )
        return self

    def up_and_ready(self) -> FakeFleet:
        self.up()
        self.wait_until(
            lambda found: found["router"]["state"] == "ready" and states(found) == ["ready"] * self.instances
        )
        return self

    def wait_until(self, condition: Callable[[dict[str, Any]], bool], seconds: float = 60) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        found: dict[str, Any] = {}
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log
            try:
                found = self.control.status()
            except PortalError:
                found = {}
            if found and condition(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"it did not come about: {found}\n{self.log}")

    def behave(self, number: int, behaviour: str) -> None:
        """What an instance does from now on; '' is well."""
        (self.folder / "checkpoint" / f"behaviour-instance-{number}").write_text(behaviour)

    def program(self, name: str) -> Path:
        """python, vllm or vllm-router, as the fleet starts it."""
        return self.folder / "bin" / name

    @contextmanager
    def broken(self, name: str) -> Iterator[None]:
        """From its next start on, the program ends at once."""
        good = self.program(name).read_text()
        self.program(name).write_text("#!/bin/sh\necho ERROR out of order\nexit 1\n")
        yield
        self.program(name).write_text(good)

    def load(self, behaviour: str) -> None:
        """What the store's loader does, as fake_loader knows it."""
        program = self.program("python")
        program.write_text(program.read_text().replace('"good"', f'"{behaviour}"'))

    def ended(self) -> int:
        """Exit status of the supervisor, which ends by itself."""
        assert self.process is not None
        return self.process.wait(timeout=60)

    def read_a_page(self) -> str:
        """Through the router; gives the name of the instance that read it. Raises httpx.HTTPStatusError."""
        answer = httpx.post(f"http://127.0.0.1:{self.ports[-2]}/v1/chat/completions", json={}, timeout=60)
        answer.raise_for_status()
        return str(answer.json()["choices"][0]["message"]["content"])

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise

    def _write_checkpoint(self) -> None:
        import struct

        folder = self.folder / "checkpoint"
        folder.mkdir()
        header = json.dumps({"weight": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}}).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))
        text = {"num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 8, "hidden_size": 16, "vocab_size": 64}
        (folder / "config.json").write_text(json.dumps({"architectures": ["Fake"], "text_config": text}))
        (folder / "page-seconds").write_text("0.05")

    def _write_program(self, name: str, text: str) -> None:
        path = self.program(name)
        path.write_text(text.replace("{python}", sys.executable).replace("{folder}", str(self.folder)))
        path.chmod(0o755)


class Readers:
    """Readers that ask the router without pause, and count what they got."""

    def __init__(self, fleet: FakeFleet, count: int = 3) -> None:
        self.pages: list[str] = []
        self.faults: list[httpx.HTTPError] = []
        self._fleet, self._over = fleet, threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(count)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                self.pages.append(self._fleet.read_a_page())
            except httpx.HTTPError as error:
                self.faults.append(error)


def fleet_file_top(checkpoint: Path, python: Path, run_dir: Path, instances: int) -> tuple[str, list[int]]:
    """A fleet's file on CPU as far as its first table; and its ports: of the instances, the router, its metrics."""
    ports = free_ports(instances + 2)
    keys = {
        "checkpoint": str(checkpoint),
        "served_name": "ocr",
        "vllm_python": str(python),
        "run_dir": str(run_dir),
        "device": "cpu",
        "transport": "memfd",
        "instances": instances,
        "first_port": ports[0],
        "router_port": ports[-2],
        "router_metrics_port": ports[-1],
    }
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items()), ports


def states(found: dict[str, Any]) -> list[str]:
    return [instance["state"] for instance in found["instances"]]


def free_ports(count: int) -> list[int]:
    """Free ports in a row: instances listen on consecutive ones."""
    for first in range(20000 + os.getpid() % 300 * 100, 60000, 37):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return list(range(first, first + count))
    raise AssertionError("no free ports")
