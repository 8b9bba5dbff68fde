"""A whole portal in its own process on a free port of 127.0.0.1; for tests and benchmarks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class RunningPortal:
    """A whole portal in its own process: SQLite, embedded engine, as `make run` starts it."""

    url: str
    data_dir: Path
    log_file: Path
    environ: Mapping[str, str]
    process: subprocess.Popen[bytes]
    admin_email: str = "admin@portal.example"
    admin_password: str = "an admin's own words"

    def command(self, *arguments: str) -> str:
        """Runs `python app.py …` beside the running portal and gives its standard output."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "app.py"), *arguments],
            env=dict(self.environ),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait()


def start_portal(
    data_dir: Path, *, program: tuple[str, ...] = (str(ROOT / "app.py"), "serve"), **settings: str
) -> RunningPortal:
    """Starts a portal on a free port of 127.0.0.1 and waits until it is ready; `program` are Python's arguments."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PORTAL_")}
    environ |= {
        "PORTAL_PORT": str(port),
        "PORTAL_DATA_DIR": str(data_dir),
        "PORTAL_ADMIN_EMAIL": RunningPortal.admin_email,
        "PORTAL_ADMIN_PASSWORD": RunningPortal.admin_password,
        **settings,
    }
    data_dir.mkdir(parents=True, exist_ok=True)
    log_file = data_dir.parent / f"{data_dir.name}.log"
    with log_file.open("ab") as log:
        process = subprocess.Popen([sys.executable, *program], env=environ, cwd=ROOT, stdout=log, stderr=log)
    portal = RunningPortal(f"http://127.0.0.1:{port}", data_dir, log_file, environ, process)
    _wait_until_ready(portal)
    return portal


def _wait_until_ready(portal: RunningPortal, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if portal.process.poll() is not None:
            break
        try:
            if httpx.get(f"{portal.url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    portal.process.kill()
    raise RuntimeError(f"the portal did not get ready:\n{portal.log_file.read_text()[-4000:]}")


def stop_portal(portal: RunningPortal) -> None:
    """Stops it in good order."""
    portal.process.terminate()
    try:
        portal.process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        portal.kill()
        raise RuntimeError("the portal did not stop within 30 seconds of SIGTERM") from None
