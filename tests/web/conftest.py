"""Guarded and bare Gradio apps, served once for all tests of this folder by one process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.gradio_client import Served

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def gradio_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the process says of its apps."""
    folder = tmp_path_factory.mktemp("gradio").resolve()
    environ = os.environ | {"GRADIO_TEMP_DIR": str(folder / "uploads"), "PYTHONWARNINGS": "default"}
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.web.guarded_app"], cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=log
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "log.txt").read_text()
            yield json.loads(line)
        finally:
            process.terminate()
            process.communicate(timeout=20)


def _served(told: dict[str, Any], name: str) -> Iterator[Served]:
    app = told["apps"][name]
    routes = [(method, template) for method, template in told["routes"]]
    served = Served(f"http://127.0.0.1:{app['port']}", Path(told["upload_dir"]), app["fn_indices"], routes)
    with served.clients:
        yield served


@pytest.fixture
def guarded(gradio_process: dict[str, Any]) -> Iterator[Served]:
    """The app behind the guard."""
    yield from _served(gradio_process, "guarded")


@pytest.fixture
def bare(gradio_process: dict[str, Any]) -> Iterator[Served]:
    """The same app with Gradio's own auth_dependency only: what the guard is for."""
    yield from _served(gradio_process, "bare")


@pytest.fixture
def tight(gradio_process: dict[str, Any]) -> Iterator[Served]:
    """Behind a guard with small limits and a public address (tests.web.guarded_app.TIGHT)."""
    yield from _served(gradio_process, "tight")
