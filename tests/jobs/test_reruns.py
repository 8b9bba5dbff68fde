"""Identical re-runs are free: never read nor charged twice within a tenant, never taken across tenants."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from models import LedgerEntry, Page, SearchText
from portal.documents.intake import Upload
from portal.domain import JobState, PageState, Principal
from portal.engine import fakes
from portal.errors import LimitReached
from portal.jobs import claims, execution, handbacks, reruns
from portal.jobs.endings import cancel, delete
from portal.jobs.queries import JobView, get_job, page_text, page_view_path, wait
from portal.jobs.retry import retry
from portal.jobs.submission import Order, submit
from tests.jobs.conftest import Bench, dispatching, page_bytes
from tests.ledger import assert_books_agree, charged, limit_tenant, page_ends


def _again(bench: Bench, who: Principal, *, pages: int = 2, order: Order | None = None, times: int = 1) -> JobView:
    """Submits the same bytes each time."""
    path = bench.folder / f"same-{pages}"
    path.write_bytes(page_bytes(pages))
    return submit(bench.context, who, [Upload("same.tiff", path)] * times, order or Order())


def _books(bench: Bench, job: JobView) -> list[tuple[str, int]]:
    with bench.context.database.reading() as session:
        assert_books_agree(session)
        return page_ends(session, job.id)


def _calls(bench: Bench) -> int:
    return sum(bench.engine.calls.values())


def test_a_rerun_is_finished_at_once_and_free_also_when_nothing_is_left(bench: Bench) -> None:
    [first] = bench.run(_again(bench, bench.alice))
    limit_tenant(bench.context.database, bench.alice.tenant_id, pages_per_day=2)
    with pytest.raises(LimitReached):
        bench.submit()
    second = _again(bench, bench.bob)
    assert (second.state, second.pages_done, second.pages_charged) == (JobState.SUCCEEDED, 2, 0)
    assert [page.is_reused for page in second.pages] == [True, True]
    assert _books(bench, second) == [("identical", 0)] * 2
    assert _calls(bench) == 2
    for position in (1, 2):
        text = page_text(bench.context, bench.alice.tenant_id, second.id, position)
        assert text == page_text(bench.context, bench.alice.tenant_id, first.id, position)
    view = page_view_path(bench.context, bench.alice.tenant_id, second.id, 2)
    with bench.context.database.reading() as session:
        assert len(session.scalars(select(SearchText).where(SearchText.job_id == second.id)).all()) == 3
    delete(bench.context, bench.alice, first.id)
    assert view.read_bytes()[:2] == b"\xff\xd8", "the image stays with who took it over"


def test_other_pages_prompts_engines_and_tenants_are_no_rerun(bench: Bench) -> None:
    [first] = bench.run(_again(bench, bench.alice, order=Order(page_numbers=(1,))))
    part = _again(bench, bench.alice)
    assert (part.state, part.counts.queued, part.counts.succeeded) == (JobState.QUEUED, 1, 1)
    other = _again(bench, bench.charlie, order=Order(page_numbers=(1,)))
    assert other.state is JobState.QUEUED
    fresh = _again(bench, bench.alice, order=Order(page_numbers=(1,), is_fresh=True))
    assert fresh.state is JobState.QUEUED
    bench.engine.capability = replace(bench.engine.capability, profile_version="2")
    newer = _again(bench, bench.alice, order=Order(page_numbers=(1,)))
    assert newer.state is JobState.QUEUED
    bench.run(part, other, fresh, newer)
    assert _calls(bench) == 5
    assert [_books(bench, job) for job in (first, other, fresh, newer)] == [[("read", 1)]] * 4
    assert sorted(_books(bench, part)) == [("identical", 0), ("read", 1)]


def test_keys_differ_in_all_that_decides_the_text() -> None:
    from portal.domain import FieldSpec, Task, TaskPrompt

    way = reruns.Way("ten_1", TaskPrompt(), "fake", "1")
    ways = [
        way,
        replace(way, tenant_id="ten_2"),
        replace(way, prompt=TaskPrompt(Task.FIELDS, (FieldSpec("a"), FieldSpec("b")))),
        replace(way, prompt=TaskPrompt(Task.FIELDS, (FieldSpec("a, b"),))),
        replace(way, prompt=TaskPrompt(Task.TRANSLATE, (), "German")),
        replace(way, engine="other"),
        replace(way, profile_version="2"),
    ]
    keys = {each.key("ab", 1) for each in ways} | {way.key("ab", 2), way.key("abc", 1)}
    assert len(keys) == len(ways) + 2


def test_what_was_deleted_is_read_again(bench: Bench) -> None:
    [first] = bench.run(_again(bench, bench.alice))
    delete(bench.context, bench.alice, first.id)
    assert _again(bench, bench.alice).state is JobState.QUEUED


def test_a_blank_page_is_taken_over_and_a_cut_one_is_not(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.engine.script = [fakes.blank()]
    bench.run(_again(bench, bench.alice))
    second = _again(bench, bench.alice)
    assert (second.state, second.counts.blank) == (JobState.SUCCEEDED, 2)
    cut = execution._read_ending
    monkeypatch.setattr(
        execution, "_read_ending", lambda text, attempt: cut(replace(text, truncated="length"), attempt)
    )
    bench.engine.script = [fakes.answers("and so on")]
    [looped] = bench.run(_again(bench, bench.alice, pages=1))
    assert _books(bench, looped) == [("truncated", 0)]
    assert _again(bench, bench.alice, pages=1).state is JobState.QUEUED


def test_twins_in_flight_are_read_once(bench: Bench) -> None:
    bench.engine.is_held = True
    bench.engine.slots = 4
    first, second = _again(bench, bench.alice), _again(bench, bench.bob, times=2)
    assert second.counts.queued == 4

    async def joined() -> list[JobView]:
        async with dispatching(bench.context):
            while bench.engine.calls_now < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            assert bench.engine.calls_now == 2, "twins are not read beside each other"
            bench.engine.is_held = False
            return [await wait(bench.context, bench.alice.tenant_id, job.id, 20) for job in (first, second)]

    done = asyncio.run(joined())
    assert [job.state for job in done] == [JobState.SUCCEEDED] * 2
    assert _calls(bench) == 2
    assert sorted(_books(bench, first) + _books(bench, second)) == [("identical", 0)] * 4 + [("read", 1)] * 2
    with bench.context.database.reading() as session:
        assert charged(session) == 2


@pytest.mark.parametrize("end", ["fails", "cancelled"])
def test_a_twin_is_read_itself_when_the_one_before_it_has_no_reading(bench: Bench, end: str) -> None:
    bench.engine.is_held = True
    first = _again(bench, bench.alice, pages=1)
    bench.engine.scripts = {}

    async def left_alone() -> JobView:
        async with dispatching(bench.context):
            while not bench.engine.calls_now:
                await asyncio.sleep(0.01)
            second = await asyncio.to_thread(_again, bench, bench.bob, pages=1)
            path = bench.context.storage.page_image_path(bench.alice.tenant_id, first.documents[0].id, 1)
            if end == "cancelled":
                await asyncio.to_thread(cancel, bench.context, bench.alice, first.id)
            else:
                assert path in bench.engine.calls
            bench.engine.is_held = False
            return await wait(bench.context, bench.alice.tenant_id, second.id, 20)

    if end == "fails":
        path = bench.context.storage.page_image_path(bench.alice.tenant_id, first.documents[0].id, 1)
        bench.engine.scripts[path] = [fakes.fails(is_permanent=True)]
    second = asyncio.run(left_alone())
    assert second.state is JobState.SUCCEEDED
    assert _books(bench, second) == [("read", 1)]
    if end == "fails":
        bench.engine.scripts = {}
        retried = retry(bench.context, bench.alice, first.id)
        assert retried.state is JobState.RUNNING, "a retry takes no reading"
        bench.run(retried)
        assert _books(bench, first) == [("failed", 0), ("read", 1)]


def test_a_twin_takes_the_reading_after_a_death_between_the_two(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _again(bench, bench.alice, pages=1), _again(bench, bench.bob, pages=1)
    monkeypatch.setattr(execution, "_hand_over", lambda *_: None)  # the process dies right after it stored the page
    bench.run(first, second)
    assert sorted(_books(bench, first) + _books(bench, second)) == [("identical", 0), ("read", 1)]
    assert _calls(bench) == 1
    done = get_job(bench.context, bench.alice.tenant_id, second.id)
    assert done.receipt.pending == 0


def test_a_killed_reader_holds_no_twin_back(bench: Bench) -> None:
    first, second = _again(bench, bench.alice, pages=1), _again(bench, bench.bob, pages=1)
    database, tenant_id = bench.context.database, bench.alice.tenant_id
    with database.transaction() as session:
        assert claims.claim(session, "dead", tenant_id, first.id) is not None
        assert claims.claim(session, "live", tenant_id, second.id) is None
        assert claims.waiting(session, "fake") == {}
    with database.transaction() as session:
        handbacks.recover(session)
        assert claims.waiting(session, "fake") == {tenant_id: {first.id: 1, second.id: 1}}
    bench.run(first, second)
    assert _calls(bench) == 1


def test_readings_stay_whole_when_the_image_cannot_be_taken_over(sqlite_bench: Bench) -> None:
    bench = sqlite_bench
    [first] = bench.run(_again(bench, bench.alice, pages=1))
    page_view_path(bench.context, bench.alice.tenant_id, first.id, 1).unlink()
    second = _again(bench, bench.alice, pages=1)
    assert second.state is JobState.SUCCEEDED
    with bench.context.database.reading() as session:
        sources = session.scalars(select(Page.reused_page_id).where(Page.job_id == second.id)).all()
        assert sources != [None]
        assert session.scalars(select(LedgerEntry.reason).where(LedgerEntry.kind == "posted")).all() == ["read"]
    assert not list(Path(bench.folder / "data").rglob(".*.part"))
    assert second.pages[0].state is PageState.SUCCEEDED
