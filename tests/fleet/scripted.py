"""A real control server, on a Unix socket and on TCP, before a supervisor that does at once what it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portal.errors import Conflict, NotFound
from portal.serving.configuration import FleetConfiguration, load
from portal.serving.control_server import serving_control
from portal.settings import FleetSettings
from tests.serving.fleets import free_ports

TOKEN = "fleet-token-" + "t" * 32


@dataclass
class ScriptedSupervisor:
    """Two instances. `told` is what it was ordered; while `is_held` is set it answers nothing."""

    fleet: FleetConfiguration
    states: list[str] = field(default_factory=lambda: ["ready", "ready"])
    finished: int = 0
    asked: int = 0
    told: list[tuple[str, Any]] = field(default_factory=list)
    answer: Any = None
    is_held: bool = False
    last_error: str = ""

    async def status(self) -> Any:
        self.asked += 1
        while self.is_held:
            await asyncio.sleep(0.01)
        return status_of(self) if self.answer is None else self.answer

    async def drain(self, number: int) -> None:
        self.told.append(("drain", number))
        if not 0 <= number < len(self.states):
            raise NotFound(f"There is no instance {number}.", remedy="They are numbered 0 to 1.")
        if self.states.count("ready") == 1:
            raise Conflict(f"instance-{number} is the only one that reads.", remedy="Restart it.")
        self.states[number] = "draining"

    async def restart(self, numbers: list[int] | None = None) -> None:
        self.told.append(("restart", numbers))
        for number in numbers or range(len(self.states)):
            self.states[number] = "starting"

    def down(self) -> None:
        self.told.append(("down", None))


def status_of(supervisor: ScriptedSupervisor) -> dict[str, Any]:
    """As portal/serving/supervisor.py tells it."""
    return {
        "fleet": {
            "checkpoint": "/c",
            "served_name": "ocr",
            "device": "cpu",
            "transport": "memfd",
            "mps": False,
            "is_rolling": False,
            "fitting_instances": 4,
        },
        "store": {
            "state": "ready",
            "pid": 1,
            "generation": 1,
            "last_error": "",
            "checkpoint": "/c",
            "sha256": "0" * 64,
            "total_bytes": 706_000_000,
            "transport": "memfd",
            "leases": [{"name": "instance-0", "pid": 2, "since": 1.0}],
        },
        "router": {"state": "ready", "pid": 9, "url": "http://127.0.0.1:8000", "workers": [], "last_error": ""},
        "instances": [_instance(supervisor, number, state) for number, state in enumerate(supervisor.states)],
    }


def _instance(supervisor: ScriptedSupervisor, number: int, state: str) -> dict[str, Any]:
    is_ready = state == "ready"
    return {
        "number": number,
        "name": f"instance-{number}",
        "state": state,
        "url": f"http://127.0.0.1:{8101 + number}",
        "pid": 10 + number,
        "checkpoint": "ocr",
        "ready_since": 1_700_000_000.0,
        "starts": 1,
        "failures": 0,
        "last_error": supervisor.last_error,
        "running": 3 if is_ready else None,
        "waiting": 0 if is_ready else None,
        "finished_requests": supervisor.finished if is_ready else None,
        "cache_used": 0.25 if is_ready else None,
        "private_bytes": 1_200_000_000,
    }


@dataclass(frozen=True)
class ServedFleet:
    """Where it answers, and its supervisor."""

    supervisor: ScriptedSupervisor
    socket: Path
    url: str

    def settings(self, *, over_tcp: bool = False, token: str = TOKEN) -> FleetSettings:
        if over_tcp:
            return FleetSettings.model_validate({"fleet_url": self.url, "fleet_token": token})
        return FleetSettings.model_validate({"fleet_url": str(self.socket)})


@contextmanager
def scripted_fleet(folder: Path) -> Iterator[ServedFleet]:
    """Answers until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    file = folder / "fleet.toml"
    file.write_text(
        f'checkpoint = "/c"\nserved_name = "ocr"\nvllm_python = "/none/bin/python"\nrun_dir = "{folder}"\n'
        f'[control]\nport = {port}\ntoken_file = "{token}"\n'
    )
    supervisor = ScriptedSupervisor(load(file))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        with serving_control(supervisor, loop):  # type: ignore[arg-type]
            yield ServedFleet(supervisor, folder / "control.sock", f"http://127.0.0.1:{port}")
    finally:
        supervisor.is_held = False
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
