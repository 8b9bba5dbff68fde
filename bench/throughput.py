"""Jobs of one page through the API against the bare engine on the same pages: what the portal costs.

Both use the same number of workers; the API side also uploads, rasterizes, stores and fetches. Run by
`python -m bench throughput`; `--jobs` and `--workers` change the size.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from PIL import Image

from portal.domain import PageImage, TaskPrompt
from portal.engine.embedded import EmbeddedEngine, default_workers
from portal.ui.samples import named
from tests.running_portal import start_portal, stop_portal

_CLIENTS = 16


@dataclass(frozen=True)
class Run:
    """Seconds for all pages, and the portal's memory (0 for the bare engine)."""

    seconds: float
    portal_bytes: int = 0


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 0 when every page was read."""
    parser = argparse.ArgumentParser(prog="bench throughput", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=default_workers())
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as name:
        page = Path(name) / "page.png"
        named("receipt").draw(page)
        bare = asyncio.run(_bare(page, given.jobs, given.workers))
        through = _through_api(page, given.jobs, given.workers, Path(name) / "data")
    rows = [("bare engine", bare), ("through the API", through)]
    print(f"{'':<18}{'pages':>7}{'seconds':>9}{'pages/s':>9}{'portal MB':>11}")
    for title, run in rows:
        memory = f"{run.portal_bytes / 2**20:.0f}" if run.portal_bytes else "-"
        print(f"{title:<18}{given.jobs:>7}{run.seconds:>9.1f}{given.jobs / run.seconds:>9.2f}{memory:>11}")
    print(f"\nThroughput through the API: {100 * bare.seconds / through.seconds:.0f} % of the bare engine.")
    return 0


async def _bare(page: Path, jobs: int, workers: int) -> Run:
    engine = EmbeddedEngine(workers, page_seconds=120)
    await engine.start()
    with Image.open(page) as opened:
        image = PageImage(page, *opened.size)
    began = time.monotonic()
    await asyncio.gather(*(engine.recognise(image, TaskPrompt()) for _ in range(jobs)))
    seconds = time.monotonic() - began
    await engine.close()
    return Run(seconds)


def _through_api(page: Path, jobs: int, workers: int, data_dir: Path) -> Run:
    portal = start_portal(data_dir, PORTAL_EMBEDDED_WORKERS=str(workers))
    portal.command("admin", "create-tenant", "--name", "bench", "--email", "b@b.example", "--password", "bench-bench")
    key = portal.command("admin", "create-key", "--tenant", "bench", "--scopes", "ocr,read").strip()
    content = page.read_bytes()
    with httpx.Client(base_url=portal.url, headers={"Authorization": f"Bearer {key}"}, timeout=600) as client:
        began = time.monotonic()
        with ThreadPoolExecutor(_CLIENTS) as threads:
            ids = list(threads.map(lambda _: _submit(client, content), range(jobs)))
            list(threads.map(lambda job: _fetch(client, job), ids))
        seconds = time.monotonic() - began
    memory = psutil.Process(portal.process.pid).memory_info().rss
    stop_portal(portal)
    return Run(seconds, memory)


def _submit(client: httpx.Client, content: bytes) -> str:
    answer = client.post(
        "/v1/jobs", files={"files": ("page.png", content)}, data={"options": '{"fresh": true}'}
    ).raise_for_status()
    return str(answer.json()["id"])


def _fetch(client: httpx.Client, job: str) -> None:
    while client.get(f"/v1/jobs/{job}?wait=60").raise_for_status().json()["state"] in ("queued", "running"):
        pass
    text = client.get(f"/v1/jobs/{job}/result?format=txt").raise_for_status().text
    if not text.strip():
        raise RuntimeError(f"{job} has no text")
