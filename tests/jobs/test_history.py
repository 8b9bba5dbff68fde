"""The history: who is in which group, what a search finds, and that neither crosses tenants."""

from __future__ import annotations

import io
import secrets
import zipfile

import pytest
from sqlalchemy import func, insert, select

from models import Job, SearchText
from portal.documents.intake import Upload
from portal.domain import Principal
from portal.engine import fakes
from portal.errors import Busy, InvalidRequest, NotFound, TooSlow
from portal.jobs import history, search
from portal.jobs.bundle import MAX_JOBS, write_bundle
from portal.jobs.endings import delete
from portal.jobs.history import Group
from portal.jobs.queries import JobView
from portal.jobs.retry import retry
from portal.jobs.submission import Order, submit
from portal.results.export import ExportFormat
from tests.jobs.conftest import Bench


def _read(bench: Bench, file_name: str, text: str, who: Principal | None = None) -> JobView:
    bench.engine.script = [fakes.answers(text)]
    bench.engine.calls.clear()
    upload = Upload(file_name, bench.upload().path)
    [job] = bench.run(submit(bench.context, who or bench.alice, [upload], Order()))
    return job


def _found(bench: Bench, text: str, who: Principal | None = None) -> list[str]:
    return [job.id for job in history.find(bench.context, (who or bench.alice).tenant_id, text=text)]


def test_jobs_are_found_by_name_text_and_id_in_every_script(bench: Bench) -> None:
    invoice = _read(bench, "Rechnung März.png", "STRASSE 12\nGesamt 27,09 €")
    receipt = _read(bench, "scan_07.png", "領収書 合計 1,200円\nＦｕｌｌ width 50% off")
    for text in ("rechnung", "MÄRZ", "straße", "27,09", "gesamt märz", invoice.id, invoice.id[:12].upper()):
        assert _found(bench, text) == [invoice.id], text
    for text in ("領収書", "合計", "full WIDTH", "50%", "scan_07"):
        assert _found(bench, text) == [receipt.id], text
    for text in ("scan%07", "scanx07", "rechnung 領収書", "' OR 1=1", "\x00", "\ud800", "job_"):
        assert _found(bench, text) == ([receipt.id, invoice.id] if text == "job_" else []), text
    assert _found(bench, "  ") == [receipt.id, invoice.id]


def test_another_tenants_words_are_not_found(bench: Bench) -> None:
    own = _read(bench, "scan.png", "secret of acme")
    assert _found(bench, "secret", bench.bob) == [own.id]
    assert _found(bench, "secret", bench.charlie) == []
    assert _found(bench, own.id, bench.charlie) == []
    with pytest.raises(NotFound):
        history.find(bench.context, bench.charlie.tenant_id, before=own.id)


def test_words_are_forgotten_when_the_job_is_deleted(bench: Bench) -> None:
    job = _read(bench, "scan.png", "gone soon")
    delete(bench.context, bench.alice, job.id)
    assert _found(bench, "gone") == []
    with bench.context.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(SearchText)) == 0


@pytest.mark.parametrize("text", ["a b c d e f g h i", "x" * 201])
def test_search_is_refused_when_it_is_too_long(sqlite_bench: Bench, text: str) -> None:
    with pytest.raises(InvalidRequest):
        _found(sqlite_bench, text)


def test_job_changes_its_group_as_it_fails_is_looked_at_and_is_retried(bench: Bench) -> None:
    context, tenant_id = bench.context, bench.alice.tenant_id

    def groups() -> dict[str, int]:
        return {group.value: len(history.find(context, tenant_id, group=group)) for group in Group}

    bench.engine.script = [fakes.fails(is_permanent=True)]
    waiting = bench.submit()
    assert groups() == {"attention": 0, "running": 1, "done": 0}
    [job] = bench.run(waiting)
    assert groups() == {"attention": 1, "running": 0, "done": 0}
    history.look(context, bench.charlie.tenant_id, job)
    assert groups() == {"attention": 1, "running": 0, "done": 0}
    history.look(context, tenant_id, job)
    assert groups() == {"attention": 0, "running": 0, "done": 1}
    retry(context, bench.alice, job.id)
    assert groups() == {"attention": 0, "running": 1, "done": 0}
    bench.run(job)
    assert groups() == {"attention": 1, "running": 0, "done": 0}


def test_older_jobs_follow_without_gap_when_read_on(bench: Bench) -> None:
    ids = [bench.submit().id for _ in range(5)][::-1]
    first = history.find(bench.context, bench.alice.tenant_id, group=Group.RUNNING, limit=3)
    rest = history.find(bench.context, bench.alice.tenant_id, group=Group.RUNNING, limit=3, before=first[-1].id)
    assert [job.id for job in [*first, *rest]] == ids


def test_folded_texts_are_alike_when_only_case_width_or_space_differ() -> None:
    assert search.folded(" ＳＴＲＡẞＥ\n\t12 ") == search.folded("strasse 12")
    assert search.folded("ﬁne\x00") == "fine\ufffd"


def test_bundle_has_a_file_for_each_job_when_names_are_alike(bench: Bench) -> None:
    jobs = [_read(bench, name, f"text of {name}") for name in ("scan.png", "SCAN.png", "../../evil.png")]
    target = io.BytesIO()
    ids = [job.id for job in jobs]
    write_bundle(bench.context, bench.bob.tenant_id, [*ids, ids[0]], ExportFormat.TXT, target)
    with zipfile.ZipFile(target) as bundle:
        assert bundle.namelist() == ["scan.txt", "SCAN (2).txt", "evil.txt", "receipt.txt", "receipt.json"]
        assert bundle.read("SCAN (2).txt") == b"text of SCAN.png\n"
        assert bundle.testzip() is None
    with pytest.raises(NotFound):
        write_bundle(bench.context, bench.charlie.tenant_id, ids, ExportFormat.TXT, io.BytesIO())
    for wrong in ([], [f"job_{n}" for n in range(MAX_JOBS + 1)]):
        with pytest.raises(InvalidRequest):
            write_bundle(bench.context, bench.alice.tenant_id, wrong, ExportFormat.TXT, io.BytesIO())


def test_third_search_of_a_tenant_is_told_to_wait_while_two_run(bench: Bench) -> None:
    searches, own = bench.context.heavy_reads.searches, bench.alice.tenant_id
    with searches.one(own), searches.one(own):
        with pytest.raises(Busy) as refusal:
            _found(bench, "anything", bench.bob)
        assert (refusal.value.code, refusal.value.retry_after_seconds) == ("search_busy", 3)
        assert _found(bench, "anything", bench.charlie) == []
        assert history.find(bench.context, own) == []  # a list is no search
    assert _found(bench, "anything") == []


def test_search_ends_with_a_way_on_when_it_takes_too_long(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench.context.database.transaction() as session:
        job = Job(tenant_id=bench.alice.tenant_id, task="extract", engine="x", engine_profile="1", page_count=0)
        session.add(job)
        session.flush()
        long = [{"tenant_id": job.tenant_id, "job_id": job.id, "folded": "lorem ipsum " * 200} for _ in range(5000)]
        session.execute(insert(SearchText), long)
    monkeypatch.setattr(history, "MAX_SEARCH_SECONDS", 0.001)
    with pytest.raises(TooSlow) as refusal:
        _found(bench, "dolor")
    assert (refusal.value.code, "one group" in refusal.value.remedy) == ("search_too_slow", True)
    monkeypatch.undo()
    assert _found(bench, "dolor") == []  # the connection is as good as before, and its turn was given back


def test_bundle_is_refused_before_it_is_larger_than_allowed(bench: Bench) -> None:
    job = _read(bench, "scan.png", secrets.token_hex(4000))
    with pytest.raises(InvalidRequest) as refusal:
        write_bundle(bench.context, bench.alice.tenant_id, [job.id], ExportFormat.TXT, io.BytesIO(), max_bytes=1000)
    assert (refusal.value.code, "fewer jobs" in refusal.value.remedy) == ("export_too_large", True)
