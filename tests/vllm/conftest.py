"""What tests with a real vLLM may use: its Python, checkpoints made on the spot, one running server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.vllm.servers import RealVllm, start_vllm, stop_vllm

CheckpointMaker = Callable[..., Path]


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The Python of vLLM's own environment; `make test-vllm` makes it and names it."""
    named = os.environ.get("VLLM_PYTHON")
    assert named, "VLLM_PYTHON is not set: run these tests by `make test-vllm`."
    return Path(named)


@pytest.fixture(scope="session")
def checkpoint(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> CheckpointMaker:
    """Makes a checkpoint of a size (tiny, mid) and seed, once in a session."""
    made: dict[tuple[str, int], Path] = {}

    def make(size: str = "tiny", seed: int = 0) -> Path:
        if (size, seed) not in made:
            folder = tmp_path_factory.mktemp("checkpoints") / f"{size}-{seed}"
            maker = Path(__file__).with_name("checkpoints.py")
            subprocess.run([vllm_python, maker, folder, size, str(seed)], check=True, timeout=300)
            made[size, seed] = folder
        return made[size, seed]

    return make


@pytest.fixture(scope="session")
def real_vllm(
    vllm_python: Path, checkpoint: CheckpointMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealVllm]:
    """A plain vLLM server with the tiny checkpoint, ready: it has read a page."""
    server = start_vllm(vllm_python, checkpoint(), tmp_path_factory.mktemp("vllm") / "server.log")
    yield server
    stop_vllm(server)
