"""A server beside the engine is away: the page that needs it waits, its text is kept, and everybody else is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from models import Page, TenantUsage
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.domain import FieldSpec, FieldType, JobState, PageState, Task, TaskPrompt
from portal.engine.fakes import written
from portal.engine.profiles import PROFILES
from portal.engine.translating import TranslatingEngine
from portal.engine.vllm.client import ChatClient
from portal.engine.vllm.engine import VllmEngine
from portal.engine.vllm.options import ServerOptions
from portal.jobs import claims, dispatch, endings, engine_watch, execution, handbacks, kept_readings
from portal.jobs.pace import PAGES_AHEAD
from portal.jobs.queries import JobView, get_job, wait
from portal.jobs.submission import Order
from tests.engine.vllm_bench import make_engine
from tests.jobs.conftest import Bench, dispatching, make_bench
from tests.ledger import page_ends
from tests.scripted_vllm import Failure, ScriptedVllm, fails, repeats, running_vllm, says, unused_url

SLOTS = 2
TRANSLATE = TaskPrompt(Task.TRANSLATE, language="en")
FIELDS = TaskPrompt(Task.FIELDS, (FieldSpec("total", FieldType.MONEY),))


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(engine_watch, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(execution, "_FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(handbacks, "_FIRST_WAIT", timedelta(milliseconds=10))
    monkeypatch.setattr(handbacks, "_LONGEST_WAIT", timedelta(milliseconds=20))


@pytest.fixture
def vllm() -> Iterator[ScriptedVllm]:
    with running_vllm() as server:
        server.always(says("Gesamt 9.00"))
        yield server


@pytest.fixture
def second() -> Iterator[ScriptedVllm]:
    with running_vllm(model="text-model") as server:
        server.always(says('{"total": "9.00"}'))
        yield server


def _with(second: str, reader: VllmEngine, url: str) -> Any:
    """The reader with that second server at the URL."""
    if second == "translate":
        options = ServerOptions(url=url, model="text-model")
        return TranslatingEngine(reader, ChatClient("translation", options))
    other = make_engine(ScriptedVllm(model="text-model", url=url), profile=PROFILES["generic"])
    if second == "picker":
        reader.picker = other
    else:
        reader.fallback = other
    return reader


@pytest.fixture
def bench_with(vllm: ScriptedVllm, sqlite_database: Database, sandbox: Sandbox, tmp_path: Path) -> Any:
    def made(second: str, url: str) -> Bench:
        return make_bench(sqlite_database, sandbox, tmp_path, [_with(second, make_engine(vllm, slots=SLOTS), url)])

    return made


async def _close(bench: Bench) -> None:
    """Closes the engine and those that help it, in the event loop that their connections belong to."""
    engine = bench.context.engines.all[0]
    for each in (engine, getattr(engine, "picker", None), getattr(engine, "fallback", None)):
        if each is not None:
            await each.close()


def _over(bench: Bench, job: JobView, *, meanwhile: Any = None) -> tuple[JobView, bool]:
    """The job when it is over, and whether its engine was ready all the time."""
    troubles: list[str] = []
    note = bench.context.engines.mark

    def mark(marked: Any, trouble: str | None) -> None:
        troubles.extend([trouble] if trouble else [])
        note(marked, trouble)

    bench.context.engines.mark = mark  # type: ignore[method-assign]

    async def dispatched() -> JobView:
        async with dispatching(bench.context):
            if meanwhile is not None:
                await meanwhile()
            over = await wait(bench.context, bench.alice.tenant_id, job.id, 30)
        await _close(bench)
        return over

    return asyncio.run(dispatched()), not troubles


def _readings(vllm: ScriptedVllm) -> int:
    return sum("x-request-id" in call.headers for call in vllm.received)


@pytest.mark.parametrize(
    ("second", "prompt", "code"),
    [("translate", TRANSLATE, "text_model_unavailable"), ("picker", FIELDS, "field_picker_unavailable")],
)
def test_page_fails_in_the_end_with_true_words_and_free_when_its_second_server_stays_away(
    bench_with: Any, vllm: ScriptedVllm, second: str, prompt: TaskPrompt, code: str
) -> None:
    bench = bench_with(second, unused_url())
    job = bench.submit(order=Order(prompt=prompt))

    async def others_are_served() -> None:
        other = bench.submit(bench.charlie)
        read = await wait(bench.context, bench.charlie.tenant_id, other.id, 30)
        assert read.state is JobState.SUCCEEDED

    over, was_ready = _over(bench, job, meanwhile=others_are_served)
    error = over.pages[0].error
    assert error is not None
    assert (over.state, error.code, was_ready) == (JobState.FAILED, code, True)
    assert "was read" in error.message
    assert f"tried {handbacks.MAX_CLAIMS} times" in error.message
    assert _readings(vllm) == 2  # alice's page once and charlie's once
    with bench.context.database.reading() as session:
        assert page_ends(session, job.id) == [("failed", 0)]


@pytest.mark.parametrize(("name", "prompt"), [("translate", TRANSLATE), ("picker", FIELDS)])
def test_page_is_done_without_being_read_again_when_its_second_server_is_back(
    bench_with: Any, vllm: ScriptedVllm, second: ScriptedVllm, name: str, prompt: TaskPrompt
) -> None:
    second.next(*[fails(Failure.BUSY)] * 4, fails(Failure.CUT))
    bench = bench_with(name, second.url)
    over, was_ready = _over(bench, bench.submit(order=Order(prompt=prompt)))
    assert (over.state, was_ready, _readings(vllm)) == (JobState.SUCCEEDED, True, 1)
    with bench.context.database.reading() as session:
        assert page_ends(session, over.id) == [("read", 1)]


def test_page_that_loops_is_read_with_other_sampling_when_the_fallback_is_away(
    bench_with: Any, vllm: ScriptedVllm
) -> None:
    vllm.next(says("the probe"), repeats("und so weiter, "), says("Gesamt 9.00"))
    bench = bench_with("fallback", unused_url())
    over, was_ready = _over(bench, bench.submit())
    assert (over.state, was_ready, _readings(vllm)) == (JobState.SUCCEEDED, True, 2)
    assert vllm.received[-1].body["temperature"] != vllm.received[-2].body["temperature"]


@pytest.mark.parametrize(("name", "prompt"), [("translate", TRANSLATE), ("picker", FIELDS)])
def test_page_fails_at_once_in_words_of_the_second_server_when_that_refuses(
    bench_with: Any, second: ScriptedVllm, name: str, prompt: TaskPrompt
) -> None:
    second.api_key = "another"
    bench = bench_with(name, second.url)
    over, was_ready = _over(bench, bench.submit(order=Order(prompt=prompt)))
    error = over.pages[0].error
    assert error is not None
    assert was_ready
    assert error.code == {"translate": "text_model_failed", "picker": "field_picker_failed"}[name]
    assert ("PORTAL_TRANSLATE_API_KEY" in error.remedy) is (name == "translate")
    assert "refuses the portal's key" in error.message


@pytest.mark.parametrize(
    ("name", "prompt", "failure", "is_own"),
    [
        ("translate", TRANSLATE, Failure.CONTEXT_TOO_LONG, True),
        ("translate", TRANSLATE, Failure.EMPTY, True),
        ("translate", TRANSLATE, Failure.UNAUTHORIZED, False),
        ("picker", FIELDS, Failure.CONTEXT_TOO_LONG, True),
        ("picker", FIELDS, Failure.POISON, True),
        ("picker", FIELDS, Failure.NOT_JSON, False),
    ],
)
def test_page_counts_towards_the_cap_when_the_second_server_fails_by_what_stands_on_it(
    bench_with: Any, second: ScriptedVllm, name: str, prompt: TaskPrompt, failure: Failure, is_own: bool
) -> None:
    second.always(fails(failure))
    bench = bench_with(name, second.url)
    over, _ = _over(bench, bench.submit(order=Order(prompt=prompt)))
    assert over.state is JobState.FAILED
    with bench.context.database.reading() as session:
        usage = session.scalars(select(TenantUsage).where(TenantUsage.tenant_id == bench.alice.tenant_id)).one()
        assert (usage.uncharged_pages, page_ends(session, over.id)) == (int(is_own), [("failed", 0)])


@pytest.mark.parametrize(("name", "prompt"), [("translate", TRANSLATE), ("picker", FIELDS)])
def test_others_are_read_while_the_second_server_hangs(
    bench_with: Any, vllm: ScriptedVllm, second: ScriptedVllm, name: str, prompt: TaskPrompt
) -> None:
    second.always(fails(Failure.HANG))
    bench = _with_page_seconds(bench_with(name, second.url), 600)
    hanging = bench.submit(pages=8, order=Order(prompt=prompt))

    async def served() -> tuple[JobView, JobView]:
        async with dispatching(bench.context):
            await asyncio.to_thread(second.wait_until, lambda: second.running >= SLOTS)
            read = await wait(bench.context, bench.charlie.tenant_id, bench.submit(bench.charlie).id, 30)
            hung = get_job(bench.context, bench.alice.tenant_id, hanging.id)
        await _close(bench)
        return read, hung

    read, hung = asyncio.run(served())
    assert (read.state, hung.pages_done) == (JobState.SUCCEEDED, 0)
    assert second.most_running <= 2 * SLOTS + PAGES_AHEAD, "no more are begun than may wait beside the engine"
    assert hung.counts.queued >= 3


@pytest.mark.parametrize(("name", "prompt"), [("translate", TRANSLATE), ("picker", FIELDS)])
def test_page_is_done_without_being_read_again_when_its_second_server_hung(
    bench_with: Any, vllm: ScriptedVllm, second: ScriptedVllm, name: str, prompt: TaskPrompt
) -> None:
    second.next(fails(Failure.HANG))
    bench = bench_with(name, second.url)
    over, was_ready = _over(bench, bench.submit(order=Order(prompt=prompt)))
    assert (over.state, was_ready, _readings(vllm)) == (JobState.SUCCEEDED, True, 1)
    assert second.aborted == 1


def test_what_was_read_is_forgotten_when_its_job_is_cancelled(bench_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handbacks, "_FIRST_WAIT", timedelta(hours=1))
    monkeypatch.setattr(handbacks, "_LONGEST_WAIT", timedelta(hours=1))
    monkeypatch.setattr(handbacks, "STRAY_AFTER", timedelta(milliseconds=50))
    bench = bench_with("translate", unused_url())
    job, kept = bench.submit(order=Order(prompt=TRANSLATE)), bench.context.kept_readings

    async def cancelled() -> None:
        async with dispatching(bench.context):
            await _until(lambda: len(kept.page_ids()) == 1)
            endings.cancel(bench.context, bench.alice, job.id)
            await _until(lambda: not kept.page_ids())
        await _close(bench)

    asyncio.run(cancelled())


def test_readings_are_kept_for_a_while_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_readings.KeptReadings()
    for number in range(kept_readings.MOST_KEPT + 1):
        kept.keep(f"pag_{number}", written("Total"))
    assert (kept.take("pag_0"), kept.take("pag_1")) == (None, written("Total"))
    assert kept.take("pag_1") is None
    monkeypatch.setattr(kept_readings, "KEPT_SECONDS", -1.0)
    assert kept.page_ids() == []
    assert kept.take("pag_2") is None


def test_a_postponed_page_lets_the_others_of_its_job_pass(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handbacks, "_FIRST_WAIT", timedelta(hours=1))
    monkeypatch.setattr(handbacks, "_LONGEST_WAIT", timedelta(hours=1))
    job = bench.submit(pages=2)
    tenant = bench.alice.tenant_id
    with bench.context.database.transaction() as session:
        first = claims.claim(session, "w", tenant, job.id)
        assert first is not None
        handbacks.postpone(session, first, _away())
        second = claims.claim(session, "w", tenant, job.id)
        assert second is not None
        assert second.number == 2
        assert claims.claim(session, "w", tenant, job.id) is None
        assert claims.waiting(session, job.engine) == {}
        page = session.scalars(select(Page).where(Page.tenant_id == tenant, Page.id == first.page_id)).one()
        assert (page.state, page.attempt, page.wait_until is not None) == (PageState.QUEUED, 1, True)
    assert get_job(bench.context, tenant, job.id).state is JobState.RUNNING


@pytest.mark.parametrize(("prompt", "told"), [(TRANSLATE, "text model"), (FIELDS, "picks its fields")])
def test_job_says_what_it_waits_for_and_how_long_when_all_its_pages_are_postponed(
    bench_with: Any, monkeypatch: pytest.MonkeyPatch, prompt: TaskPrompt, told: str
) -> None:
    monkeypatch.setattr(handbacks, "_FIRST_WAIT", timedelta(hours=1))
    monkeypatch.setattr(handbacks, "_LONGEST_WAIT", timedelta(hours=1))
    bench = bench_with("translate" if prompt is TRANSLATE else "picker", unused_url())
    job = bench.submit(pages=2, order=Order(prompt=prompt))
    tenant = bench.alice.tenant_id
    for _ in range(2):
        with bench.context.database.transaction() as session:
            held = claims.claim(session, "w", tenant, job.id)
            assert held is not None
            handbacks.postpone(session, held, _away())
    outlook = get_job(bench.context, tenant, job.id).outlook
    assert (outlook.binding, outlook.pages_ahead) == ("second_server", None)
    assert outlook.eta_seconds is not None
    assert 3000 < outlook.eta_seconds < 4000
    assert told in (outlook.detail or "")


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


def _with_page_seconds(bench: Bench, seconds: int) -> Bench:
    settings = bench.context.settings
    engine = settings.engine.model_copy(update={"page_seconds": seconds})
    return replace(bench, context=replace(bench.context, settings=replace(settings, engine=engine)))


def _away() -> Any:
    from portal.engine.second_servers import of_text_model
    from portal.engine.vllm.failures import away

    return of_text_model(away("translation"))
