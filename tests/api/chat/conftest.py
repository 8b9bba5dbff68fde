"""A portal with two engines on scripted vLLMs, LightOnOCR and HunyuanOCR, and one that is on none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from portal.domain import Scope
from portal.engine.fakes import FakeEngine
from portal.jobs import engine_watch
from tests.api.conftest import Persona, Portal, serving, wait_until
from tests.engine.vllm_bench import HUNYUAN, make_engine
from tests.scripted_vllm import ScriptedVllm, running_vllm, says


@pytest.fixture(scope="package")
def vllm_servers() -> Iterator[tuple[ScriptedVllm, ScriptedVllm]]:
    """LightOnOCR and HunyuanOCR."""
    with running_vllm() as lighton, running_vllm(model=HUNYUAN) as hunyuan:
        yield lighton, hunyuan


@pytest.fixture(scope="package")
def _chatting(
    vllm_servers: tuple[ScriptedVllm, ScriptedVllm], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Portal]:
    lighton, hunyuan = vllm_servers
    engines: list[Any] = [
        make_engine(lighton, slots=2, first_token_seconds=1.5, silence_seconds=1.0),
        make_engine(hunyuan, name="hunyuan"),
        FakeEngine(),
    ]
    before, engine_watch.AWAY_SECONDS = engine_watch.AWAY_SECONDS, 0.05
    with serving(tmp_path_factory.mktemp("portal"), engines) as (url, services):
        yield Portal(url, services, engines[-1])
    engine_watch.AWAY_SECONDS = before


@pytest.fixture
def live(_chatting: Portal, vllm: ScriptedVllm, hunyuan: ScriptedVllm) -> Portal:
    """A portal with LightOnOCR (the default; two slots), HunyuanOCR, and an engine that is not on vLLM."""
    engines = _chatting.services.jobs.engines
    wait_until(lambda: not engines.troubles)
    vllm.forget()
    hunyuan.forget()
    return _chatting


@pytest.fixture
def vllm(vllm_servers: tuple[ScriptedVllm, ScriptedVllm]) -> ScriptedVllm:
    """The one that LightOnOCR is served by."""
    server = vllm_servers[0]
    server.token_seconds, server.tokens_a_chunk, server.api_key = 0.0, 1, None
    server.always(says("Total 9.00"))
    return server


@pytest.fixture
def hunyuan(vllm_servers: tuple[ScriptedVllm, ScriptedVllm]) -> ScriptedVllm:
    """The one that HunyuanOCR is served by."""
    vllm_servers[1].always(says("合计 9.00"))
    return vllm_servers[1]


@pytest.fixture
def alice(live: Portal, alice: Persona, people: Callable[..., Persona]) -> Persona:
    """The owner of a fresh tenant, with a key for chats."""
    return people(alice.principal, scopes=(Scope.CHAT, Scope.READ))
