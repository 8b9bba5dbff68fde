"""A real fleet on CPU: the router's door stays open while instances die and the store is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.serving.process_groups import members
from tests.serving.fleets import states
from tests.vllm.conftest import CheckpointMaker
from tests.vllm.fleets import RealFleet
from tests.vllm.servers import chat_request, page_image
from tests.vllm.sharing import install_plugin


@pytest.fixture(scope="module")
def fleet(
    vllm_python: Path, checkpoint: CheckpointMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealFleet]:
    shared = install_plugin(vllm_python, tmp_path_factory.mktemp("wheel"))
    running = RealFleet(shared, checkpoint(), tmp_path_factory.mktemp("fleet"))
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


class Readers:
    """Pages that are asked for without pause; each is tried up to `tries` times, as the portal's engine does."""

    def __init__(self, fleet: RealFleet, tries: int) -> None:
        self.read = 0
        self.lost: list[str] = []
        self._fleet, self._tries, self._over = fleet, tries, threading.Event()
        self._threads = [threading.Thread(target=self._go_on, args=(number,)) for number in range(3)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _go_on(self, number: int) -> None:
        asked = chat_request("ocr", page_image(number), max_tokens=8)
        while not self._over.is_set():
            said = ""
            for _ in range(self._tries):
                said = self._tried(asked)
                if not said:
                    self.read += 1
                    break
                time.sleep(1)
            else:
                self.lost.append(said)

    def _tried(self, asked: dict[str, Any]) -> str:
        try:
            answer = httpx.post(f"{self._fleet.url}/v1/chat/completions", json=asked, timeout=300)
        except httpx.HTTPError as error:
            return repr(error)
        return "" if answer.status_code == 200 else f"{answer.status_code} {answer.text[:200]}"


def test_no_page_is_lost_when_an_engine_is_killed_under_load(fleet: RealFleet) -> None:
    leader = fleet.control.status()["instances"][0]["pid"]
    engine = next(pid for pid in members(leader) if "Worker" in Path(f"/proc/{pid}/cmdline").read_text())
    with Readers(fleet, tries=4) as readers:
        time.sleep(2)
        os.kill(engine, signal.SIGKILL)
        fleet.wait_until(lambda found: found["instances"][0]["starts"] == 2 and states(found) == ["ready"] * 2)
    assert readers.lost == []
    assert readers.read > 10
    assert members(leader) == []


def test_no_request_fails_when_the_store_is_killed_and_all_readers_move_to_a_new_one(fleet: RealFleet) -> None:
    before = fleet.control.status()
    with Readers(fleet, tries=1) as readers:
        os.kill(before["store"]["pid"], signal.SIGKILL)
        fleet.wait_until(
            lambda found: (
                found["store"]["generation"] == 2
                and states(found) == ["ready"] * 2
                and [one["starts"] for one in found["instances"]] == [one["starts"] + 1 for one in before["instances"]]
                and {lease["name"] for lease in found["store"]["leases"]} == {"instance-0", "instance-1"}
            )
        )
    assert readers.lost == []
    assert readers.read > 10
    assert fleet.control.verify().said.endswith("all as loaded.")
