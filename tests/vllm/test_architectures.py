"""Sharing changes no reading, whatever the architecture."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.vllm.servers import page_image, stop_vllm
from tests.vllm.sharing import install_plugin, start_store

MAKER = Path(__file__).with_name("other_checkpoints.py")


@pytest.mark.parametrize("architecture", ["qwen2.5-vl", "hunyuan-vl"])
def test_readings_equal_those_of_an_unshared_instance(vllm_python: Path, tmp_path: Path, architecture: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    subprocess.run([vllm_python, MAKER, checkpoint, architecture], check=True, timeout=300)
    shared = install_plugin(vllm_python, tmp_path)
    store = start_store(shared, checkpoint, tmp_path)
    pages = [page_image(number) for number in (1, 2)]
    try:
        instance = shared.start(checkpoint, store.socket, tmp_path / "shared.log", name="one", verify=True)
        try:
            readings = [instance.read(page) for page in pages]
        finally:
            stop_vllm(instance)
    finally:
        store.stop()
    alone = shared.start_unshared(checkpoint, tmp_path / "alone.log")
    try:
        expected = [alone.read(page) for page in pages]
    finally:
        stop_vllm(alone)
    assert readings == expected
    assert expected[0].log_probabilities != expected[1].log_probabilities
