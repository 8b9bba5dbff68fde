"""One copy of the weights: instances compute as an unshared one does, hold next to nothing, refuse what differs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.serving import process_memory
from portal.serving.shared_weights import client
from portal.serving.shared_weights.verify import DAMAGED
from tests.running_portal import ROOT
from tests.vllm.conftest import CheckpointMaker
from tests.vllm.servers import RealVllm, page_image, stop_vllm
from tests.vllm.sharing import SharedVllm, VllmStore, install_plugin, start_store

SIZES = ((300, 220), (220, 300), (60, 280), (640, 200))


@pytest.fixture(scope="module")
def shared(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> SharedVllm:
    return install_plugin(vllm_python, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def store(
    shared: SharedVllm, checkpoint: CheckpointMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmStore]:
    running = start_store(shared, checkpoint("mid"), tmp_path_factory.mktemp("store"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def instances(
    shared: SharedVllm, store: VllmStore, checkpoint: CheckpointMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[RealVllm]]:
    """Two that read the one copy; the second looks at every tensor first, the first one touches them by reading."""
    folder = tmp_path_factory.mktemp("instances")
    started: list[RealVllm] = []
    for name, verify in (("one", False), ("two", True)):
        log = folder / f"{name}.log"
        started.append(shared.start(checkpoint("mid"), store.socket, log, name=name, verify=verify))
    yield started
    for server in started:
        stop_vllm(server)


def test_two_instances_hold_one_copy(store: VllmStore, instances: list[RealVllm]) -> None:
    attachment = client.attach(store.socket, name="test")
    with attachment.lease:
        assert attachment.handle.descriptor is not None
        inode = os.fstat(attachment.handle.descriptor).st_ino
        os.close(attachment.handle.descriptor)
    copy_bytes = attachment.manifest.total_bytes
    assert copy_bytes > 700e6
    held_bytes = process_memory.segment_bytes(inode) + sum(_private_bytes(server) for server in instances)
    assert 0.95 * copy_bytes <= held_bytes <= 1.05 * copy_bytes + 10e6 * len(instances)
    assert process_memory.proportional_bytes([store.process.pid]) < 60e6
    assert sorted(lease["name"] for lease in client.status(store.socket)["leases"]) == ["one", "two"]


def test_readings_equal_those_of_an_unshared_instance(
    shared: SharedVllm, instances: list[RealVllm], checkpoint: CheckpointMaker, tmp_path: Path
) -> None:
    pages = [page_image(number, size) for number, size in enumerate(SIZES, start=1)]
    readings = [[server.read(page) for page in pages] for server in instances]
    alone = shared.start_unshared(checkpoint("mid"), tmp_path / "alone.log")
    try:
        expected = [alone.read(page) for page in pages]
    finally:
        stop_vllm(alone)
    assert readings == [expected, expected]
    assert len({reading.log_probabilities for reading in expected}) == len(pages)


def test_instances_read_on_and_a_new_one_is_refused_when_the_store_is_killed(
    shared: SharedVllm, instances: list[RealVllm], store: VllmStore, checkpoint: CheckpointMaker, tmp_path: Path
) -> None:
    before = instances[0].read(page_image(9))
    store.stop()
    assert instances[0].read(page_image(9)) == before
    with pytest.raises(RuntimeError, match="did not get ready"):
        shared.start(checkpoint("mid"), store.socket, tmp_path / "late.log", wait_seconds=1)
    assert f"No weight store answers at {store.socket}" in (tmp_path / "late.log").read_text()
    assert "serves on with the weights it has mapped" in instances[0].log_file.read_text()


def test_other_weights_with_the_same_headers_are_refused(
    shared: SharedVllm, checkpoint: CheckpointMaker, tmp_path: Path
) -> None:
    mine, other = checkpoint("tiny", 0), checkpoint("tiny", 1)
    assert (mine / "config.json").read_bytes() == (other / "config.json").read_bytes()
    running = start_store(shared, mine, tmp_path)
    try:
        with pytest.raises(RuntimeError, match="did not get ready"):
            shared.start(other, running.socket, tmp_path / "refused.log")
    finally:
        running.stop()
    said = (tmp_path / "refused.log").read_text()
    assert re.search(rf"store holds the weights of {mine} .* told to use {other} .* contents differ", said)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_verify_names_the_tensor_when_a_bit_flipped_before_sealing(
    shared: SharedVllm, tmp_path: Path, is_damaged: bool
) -> None:
    loader = [str(shared.python), str(Path(__file__).with_name("publish_damaged.py")), *["damaged"] * is_damaged]
    socket = tmp_path / "run" / "weights.sock"
    options = ["--socket", str(socket), "--checkpoint", "/x", "--transport", "memfd", "--loader", json.dumps(loader)]
    environ = {**os.environ, "PYTHONPATH": f"{shared.plugin}:{ROOT}"}
    with (tmp_path / "store.log").open("wb") as log:
        store = subprocess.Popen(
            [sys.executable, "-m", "ocr_shared_weights.store", *options], env=environ, stdout=log, stderr=log
        )
    try:
        client.attach(socket, name="wait", wait_seconds=120).lease.close()
        verify = [shared.python, "-m", "ocr_shared_weights.verify", "--socket", socket]
        done = subprocess.run(verify, env=environ, capture_output=True, text=True, timeout=120)
    finally:
        store.kill()
        store.wait()
    assert done.returncode == (DAMAGED if is_damaged else 0)
    assert ("1 of 4 tensors in the store are not what was loaded: 1.weight" in done.stderr) == is_damaged


def _private_bytes(server: RealVllm) -> float:
    found = re.search(r"shared weights: .* ([\d.]+) MB private", server.log_file.read_text())
    assert found is not None
    return float(found[1]) * 1e6
