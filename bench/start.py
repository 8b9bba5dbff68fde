"""From a clean clone to the first page read by `make run`, and a later start, in seconds.

Clones the committed state of this repository into a fresh folder. Run by `python -m bench start`.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from portal.ui.samples import named
from tests.running_portal import ROOT

_LIMIT_SECONDS = 600


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 0 when both starts read the page."""
    argparse.ArgumentParser(prog="bench start", description=__doc__).parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as name:
        folder = Path(name)
        named("receipt").draw(folder / "page.png")
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        rows = [(title, *_start(clone, folder / "page.png")) for title in ("first start", "later start")]
    print(f"{'':<14}{'ready s':>9}{'first page read s':>19}")
    for title, ready, read in rows:
        print(f"{title:<14}{ready:>9.1f}{read:>19.1f}")
    return 0


def _start(clone: Path, page: Path) -> tuple[float, float]:
    """(seconds until /readyz, seconds until the page's text is there), from the call of make."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PORTAL_", "MAKE"))}
    began = time.monotonic()
    process = subprocess.Popen(
        ["make", "run"],
        cwd=clone,
        env={**environ, "PORTAL_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_until_ready(url)
        ready = time.monotonic() - began
        _read(clone, url, page)
        return ready, time.monotonic() - began
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"not ready within {_LIMIT_SECONDS} s")


def _read(clone: Path, url: str, page: Path) -> None:
    key = _key(clone)
    answer = httpx.post(
        f"{url}/v1/jobs?wait=60",
        headers={"Authorization": f"Bearer {key}"},
        files={"files": ("page.png", page.read_bytes())},
        timeout=90,
    )
    if answer.raise_for_status().json()["state"] != "succeeded":
        raise RuntimeError(answer.text)


def _key(clone: Path) -> str:
    command = [".venv/bin/python", "app.py", "admin", "create-key", "--tenant", "admin", "--scopes", "ocr,read"]
    return subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True).stdout.strip()
