"""A fleet with a real vLLM on CPU, as `python app.py fleet up` runs it; for tests and benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from portal.errors import PortalError
from portal.serving.control_client import FleetControl
from tests.running_portal import ROOT
from tests.serving.fleets import fleet_file_top, states
from tests.vllm.servers import OFFLINE, START_SECONDS
from tests.vllm.sharing import SharedVllm

_ENGINE = """
[engine]
max_model_len = 2048
max_num_seqs = {sequences}
kv_cache = "{cache_mib} MiB"
args = ["--dtype=bfloat16", "--enforce-eager", '--limit-mm-per-prompt={{"image": 1}}', "--mm-processor-cache-gb=0"]
[engine.environ]
OMP_NUM_THREADS = "{threads}"
[card]
memory = "64 GiB"
"""


@dataclass(frozen=True)
class Size:
    """How many instances, and what each may do at once."""

    instances: int = 2
    sequences: int = 8
    cache_mib: int = 128
    threads: int = 2


class RealFleet:
    """A supervisor in a process of its own."""

    def __init__(self, shared: SharedVllm, checkpoint: Path, folder: Path, size: Size = Size()) -> None:
        self.folder, self.size = folder, size
        top, ports = fleet_file_top(checkpoint, shared.python, folder / "run", size.instances)
        self.url = f"http://127.0.0.1:{ports[-2]}"
        self.log_file = folder / "up.log"
        self.control = FleetControl(socket_path=folder / "run" / "control.sock")
        config = folder / "fleet.toml"
        config.write_text(top + _ENGINE.format(**asdict(size)))
        command = [sys.executable, str(ROOT / "app.py"), "fleet", "up", "--config", str(config)]
        with self.log_file.open("wb") as log:
            environ = {**os.environ, **OFFLINE, **shared.environ}
            self.process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)

    def wait_until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 2 * START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                found = self.control.status()
            except PortalError:
                found = {}
            if found and condition(found):
                return found
            time.sleep(0.5)
        raise AssertionError(self.log_file.read_text())

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)

    def wait_until_ready(self) -> dict[str, Any]:
        """Until the router and all instances are."""
        wanted = ["ready"] * self.size.instances
        return self.wait_until(lambda found: found["router"]["state"] == "ready" and states(found) == wanted)
