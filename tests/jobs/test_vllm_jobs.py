"""Jobs on a (scripted) vLLM: pages that fail are not charged, pages whose engine is away wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.domain import FieldSpec, FieldType, JobState, Mode, Task, TaskPrompt
from portal.jobs import dispatch, engine_watch, execution
from portal.jobs.fields import document_fields
from portal.jobs.queries import JobView, export_job, wait
from portal.jobs.submission import Order
from portal.results.export import ExportFormat
from tests.engine.vllm_bench import HUNYUAN, make_engine
from tests.jobs.conftest import Bench, dispatching, make_bench
from tests.ledger import limit_tenant, page_ends
from tests.scripted_vllm import Failure, ScriptedVllm, fails, repeats, running_vllm, says


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(engine_watch, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(execution, "_FIRST_BACKOFF_SECONDS", 0.01)


@pytest.fixture
def vllm() -> Iterator[ScriptedVllm]:
    with running_vllm(model=HUNYUAN) as server:
        yield server


@pytest.fixture
def on_vllm(vllm: ScriptedVllm, sqlite_database: Database, sandbox: Sandbox, tmp_path: Path) -> Bench:
    """The bench with an engine on the scripted server."""
    engines: Any = [make_engine(vllm, slots=4)]
    return make_bench(sqlite_database, sandbox, tmp_path, engines)


def _run(bench: Bench, job: JobView) -> JobView:
    """The job when it is over; the engine's connections are closed in the loop that they belong to."""

    async def dispatched() -> JobView:
        async with dispatching(bench.context):
            over = await wait(bench.context, bench.alice.tenant_id, job.id, 30)
        for engine in bench.context.engines.all:
            await engine.close()
        return over

    return asyncio.run(dispatched())


def _usage(bench: Bench, job: JobView) -> list[tuple[str, int]]:
    with bench.context.database.reading() as session:
        return page_ends(session, job.id)


def _page_calls(vllm: ScriptedVllm) -> list[str]:
    """The ids of the calls for pages; the probe at the start has none."""
    return [call.headers["x-request-id"] for call in vllm.received if "x-request-id" in call.headers]


def test_pages_are_read_once_each_and_charged(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    job = _run(on_vllm, on_vllm.submit(pages=3))
    assert (job.state, job.engine) == (JobState.SUCCEEDED, "vllm")
    assert _usage(on_vllm, job) == [("read", 1)] * 3
    assert len(set(_page_calls(vllm))) == 3


def test_page_fails_at_once_and_free_when_its_image_kills_the_request(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.next(says("the probe"))
    vllm.always(fails(Failure.POISON))
    job = _run(on_vllm, on_vllm.submit())
    error = job.pages[0].error
    assert error is not None
    assert (job.state, error.code) == (JobState.FAILED, "engine_failed")
    assert (_usage(on_vllm, job), len(_page_calls(vllm))) == ([("failed", 0)], 1)


def test_page_is_read_again_when_its_stream_is_cut(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.next(says("the probe"), fails(Failure.CUT))
    job = _run(on_vllm, on_vllm.submit())
    assert (job.state, job.pages[0].attempt) == (JobState.SUCCEEDED, 2)
    assert [name.rpartition("-")[2] for name in _page_calls(vllm)] == ["1", "2"]
    assert _usage(on_vllm, job) == [("read", 1)]


def test_accepted_page_waits_and_is_not_blamed_when_the_engine_is_away(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.next(says("the probe"), *[fails(Failure.BUSY)] * 7)
    job = _run(on_vllm, on_vllm.submit())
    assert (job.state, job.pages[0].attempt) == (JobState.SUCCEEDED, 2)
    assert _usage(on_vllm, job) == [("read", 1)]


def test_page_is_read_in_the_end_when_a_router_goes_on_choosing_a_dead_instance(
    on_vllm: Bench, vllm: ScriptedVllm
) -> None:
    vllm.next(says("the probe"), *[fails(Failure.UNREACHED)] * 7)
    job = _run(on_vllm, on_vllm.submit())
    assert job.state is JobState.SUCCEEDED
    assert _usage(on_vllm, job) == [("read", 1)]


def test_page_that_takes_the_engine_down_again_and_again_fails_in_the_end(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.next(says("the probe"), *[fails(Failure.CUT), fails(Failure.BUSY), fails(Failure.BUSY)] * 12)
    job = _run(on_vllm, on_vllm.submit())
    error = job.pages[0].error
    assert error is not None
    assert (job.state, error.code) == (JobState.FAILED, "interrupted")
    assert len(_page_calls(vllm)) == 30


def test_looping_page_is_kept_and_not_charged(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.next(says("the probe"))
    vllm.always(repeats("und so weiter, "))
    job = _run(on_vllm, on_vllm.submit())
    assert job.state is JobState.SUCCEEDED
    assert _usage(on_vllm, job) == [("truncated", 0)]


def test_translation_is_stored_and_exported_beside_the_original(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.next(says("the probe"), says("合计 9.00"), says("Total 9.00"))
    order = Order(prompt=TaskPrompt(task=Task.TRANSLATE, language="en"))
    job = _run(on_vllm, on_vllm.submit(order=order))
    tenant = on_vllm.alice.tenant_id
    forms = [form for form in ExportFormat if form is not ExportFormat.CSV]
    made = {form: b"".join(export_job(on_vllm.context, tenant, job.id, form).chunks).decode() for form in forms}
    assert job.prompt.language == "en"
    assert made[ExportFormat.MARKDOWN] == "合计 9.00\n\n**Translation into English**\n\nTotal 9.00\n"
    assert "Translation into English" in made[ExportFormat.TXT]
    assert '"translation": {"language": "en", "markdown": "Total 9.00"}' in made[ExportFormat.JSON]


def test_fields_of_a_model_are_stored_with_what_is_wrong_with_them(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.always(says('[{"box": [0, 0, 500, 500], "text": "Rechnungsdatum: 3. März 2026"}]'))
    specs = (FieldSpec("date", FieldType.DATE), FieldSpec("total", FieldType.MONEY, required=True))
    job = _run(on_vllm, on_vllm.submit(order=Order(prompt=TaskPrompt(Task.FIELDS, specs))))
    _, [document] = document_fields(on_vllm.context, on_vllm.alice.tenant_id, job.id)
    assert [value.value for value in document.values] == ["2026-03-03", None]
    assert document.needs_check
    assert _usage(on_vllm, job) == [("read", 1)]


def test_weight_of_the_plan_is_the_priority_of_its_pages(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    limit_tenant(on_vllm.context.database, on_vllm.alice.tenant_id, weight=3)
    _run(on_vllm, on_vllm.submit())
    assert [call.body["priority"] for call in vllm.received if "x-request-id" in call.headers] == [-20]


def test_mode_reaches_the_engine(on_vllm: Bench, vllm: ScriptedVllm) -> None:
    vllm.always(says('[{"box": [0, 0, 500, 500], "text": "Total"}]'))
    job = _run(on_vllm, on_vllm.submit(order=Order(prompt=TaskPrompt(mode=Mode.SPOTTING))))
    assert (job.state, job.prompt.mode) == (JobState.SUCCEEDED, Mode.SPOTTING)
    assert "JSON" in vllm.received[-1].texts[-1]
