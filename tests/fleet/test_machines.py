"""A router in front of an engine is seen without a fleet; a vLLM alone is hardly asked, an engine without one never."""

from __future__ import annotations

import time

from portal.engine.configuration import configured_engines
from portal.engine.fakes import FakeEngine
from portal.fleet.machines import Machines
from portal.jobs.context import Engines
from portal.settings import EngineSettings, FleetSettings
from tests.engine.vllm.test_workers import LISTED, answering
from tests.serving.conftest import wait_for


def _machines(url: str) -> Machines:
    given = {"vllm_url": url, "vllm_model": "ocr", "embedded": "off"}
    return Machines(FleetSettings(), Engines(configured_engines(EngineSettings.model_validate(given))))


def test_workers_of_a_router_are_seen_and_counted_when_there_is_no_fleet() -> None:
    asked: list[tuple[str, str | None]] = []
    with answering(200, LISTED, asked) as server:
        machines = _machines(server.url)
        assert machines.worker_counts() == {}, "nobody waits for the first look"
        wait_for(lambda: machines.worker_counts() == {"engine vllm": (1, 2)})
        [engine] = machines.engines()
    assert (engine.capability.name, engine.trouble) == ("vllm", "it is still starting.")
    assert engine.workers is not None
    assert [worker.is_healthy for worker in engine.workers] == [False, True]
    assert machines.fleet is None


def test_vllm_alone_is_not_asked_again_and_again() -> None:
    asked: list[tuple[str, str | None]] = []
    with answering(404, b"{}", asked) as server:
        machines = _machines(server.url)
        [engine] = machines.engines(wait_seconds=20)
        for _ in range(50):
            machines.worker_counts()
            time.sleep(0.001)
    assert (engine.workers, len(asked)) == (None, 1)


def test_nothing_is_asked_when_no_engine_is_elsewhere() -> None:
    machines = Machines(FleetSettings(), Engines([FakeEngine()]))
    [engine] = machines.engines(wait_seconds=20)
    assert (engine.workers, machines.worker_counts()) == (None, {})
