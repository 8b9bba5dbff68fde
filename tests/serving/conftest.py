"""Weight stores in processes of their own, filled by a loader without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from portal.serving.shared_weights import client
from portal.serving.shared_weights.client import Attachment
from portal.serving.shared_weights.faults import SharedWeightsError
from tests.running_portal import ROOT
from tests.serving.fleets import FakeFleet


@dataclass(frozen=True)
class RunningStore:
    """A store's process. `loader_pid` names the file where the loader wrote its id."""

    socket: Path
    process: subprocess.Popen[bytes]
    log_file: Path
    loader_pid: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait_until_ready(self) -> None:
        wait_for(lambda: self.process.poll() is not None or self._stands())
        assert self.process.poll() is None, self.log

    def _stands(self) -> bool:
        try:
            return bool(client.status(self.socket)["pid"] == self.process.pid)
        except SharedWeightsError:
            return False

    def lease_names(self) -> list[str]:
        return sorted(lease["name"] for lease in client.status(self.socket)["leases"])


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


StoreStarter = Callable[..., RunningStore]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder with a short path: pytest's own, in one of several processes, leaves sockets in it no room."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        yield Path(folder)


@pytest.fixture
def start_store(tmp_path: Path) -> Iterator[StoreStarter]:
    """Starts a store whose loader behaves as asked; `prefix` is a command to run it under."""
    running: list[RunningStore] = []

    def start(behaviour: str = "good", *, prefix: tuple[str, ...] = ()) -> RunningStore:
        number = len(running)
        loader_pid = tmp_path / f"loader-{number}"
        loader = [sys.executable, "-m", "tests.serving.fake_loader", behaviour, str(loader_pid)]
        socket = tmp_path / "run" / "weights.sock"
        options = ["--socket", str(socket), "--checkpoint", "/checkpoints/fake", "--transport", "memfd"]
        options += ["--loader", json.dumps(loader)]
        log_file = tmp_path / f"store-{number}.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "portal.serving.shared_weights.store", *options],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )
        running.append(RunningStore(socket, process, log_file, loader_pid))
        return running[-1]

    yield start
    for store in running:
        store.process.kill()
        store.process.wait()


@pytest.fixture
def store(start_store: StoreStarter) -> RunningStore:
    """One that is ready."""
    running = start_store()
    running.wait_until_ready()
    return running


Attach = Callable[[RunningStore, str], Attachment]


@pytest.fixture
def attach() -> Iterator[Attach]:
    """Attaches a reader, which lets go when the test ends."""
    held: list[Attachment] = []

    def attached(store: RunningStore, name: str) -> Attachment:
        held.append(client.attach(store.socket, name=name))
        return held[-1]

    yield attached
    for one in held:
        one.lease.close()
        assert one.handle.descriptor is not None
        os.close(one.handle.descriptor)


FleetMaker = Callable[..., FakeFleet]


@pytest.fixture
def make_fleet(tmp_path: Path) -> Iterator[FleetMaker]:
    """Makes fleets of stand-ins that are not started, and ends what became of them."""
    made: list[FakeFleet] = []

    def make(instances: int = 2) -> FakeFleet:
        made.append(FakeFleet(tmp_path / f"fleet-{len(made)}", instances))
        return made[-1]

    yield make
    for fleet in made:
        fleet.stop()


@pytest.fixture
def fleet(make_fleet: FleetMaker) -> FakeFleet:
    """One of two instances that is ready."""
    return make_fleet().up_and_ready()
