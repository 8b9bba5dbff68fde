"""Fields of a job's documents: stored with their page, judged, corrected by a person with the original kept."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from sqlalchemy import select

from models import AuditEntry, Page
from portal.domain import FieldSpec, FieldType, Scope, Task, TaskPrompt, TemplateRef
from portal.engine import fakes
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound
from portal.jobs.bundle import MAX_JOBS
from portal.jobs.endings import delete
from portal.jobs.field_table import write_field_table
from portal.jobs.fields import Correction, correct, document_fields
from portal.jobs.queries import JobView, export_job, get_job, page_text
from portal.jobs.submission import Order, submit
from portal.page_text import FieldState, FieldValue
from portal.results.export import ExportFormat
from tests.jobs.conftest import Bench

SPECS = (
    FieldSpec("total", FieldType.MONEY, minimum="10"),
    FieldSpec("number", FieldType.ID, required=True),
    FieldSpec("date", FieldType.DATE),
)
ORDER = Order(TaskPrompt(Task.FIELDS, SPECS, template=TemplateRef("notes", 3)))
SCAN = "Total 9.00\nDate: 3 March 2026"


@pytest.fixture
def read(bench: Bench) -> JobView:
    """A job of alice's with one page read."""
    return _read(bench)


def _read(bench: Bench, text: str = SCAN) -> JobView:
    bench.engine.capability = replace(bench.engine.capability, tasks=frozenset({Task.EXTRACT, Task.FIELDS}))
    bench.engine.script = [fakes.answers(text)]
    [job] = bench.run(bench.submit(order=ORDER))
    return job


def _values(bench: Bench, job: JobView) -> dict[str, FieldValue]:
    _, [document] = document_fields(bench.context, bench.alice.tenant_id, job.id)
    return {value.name: value for value in document.values}


def _set(bench: Bench, job: JobView, path: str, value: str | None) -> None:
    correct(bench.context, bench.bob, job.id, [Correction(1, path, value)])


def test_values_are_stored_with_their_page_and_judged(bench: Bench, read: JobView) -> None:
    values = _values(bench, read)
    assert (values["total"].value, values["total"].messages) == ("9.00", ("is less than 10",))
    assert (values["number"].value, values["number"].state) == (None, FieldState.RULE_FAILED)
    assert (values["date"].value, values["date"].state, values["date"].page) == ("2026-03-03", FieldState.READ, 1)
    text = page_text(bench.context, bench.alice.tenant_id, read.id, 1)
    assert text is not None
    assert text.fields is not None
    assert text.fields[0].box == text.lines[0].box
    shown = get_job(bench.context, bench.alice.tenant_id, read.id)
    assert (shown.prompt.fields, shown.prompt.template) == (SPECS, TemplateRef("notes", 3))


def test_a_correction_keeps_what_was_read_and_is_judged_at_once(bench: Bench, read: JobView) -> None:
    _set(bench, read, "total", "19,00 €")
    total = _values(bench, read)["total"]
    assert (total.value, total.currency, total.state, total.messages) == ("19.00", "EUR", FieldState.CHECKED, ())
    assert total.original is not None
    assert (total.original.value, total.original.raw, total.checked_by) == ("9.00", "9.00", bench.bob.email)
    _set(bench, read, "total", "8")
    again = _values(bench, read)["total"]
    assert again.original == total.original
    assert (again.state, again.messages) == (FieldState.RULE_FAILED, ("is less than 10",))
    with bench.context.database.reading() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.action == "field.corrected")).all()
    assert [(entry.target, entry.details["path"]) for entry in entries] == [(read.id, "total")] * 2
    assert "19" not in str([entry.details for entry in entries])


def test_the_same_value_again_is_a_check_and_nothing_is_an_answer_too(bench: Bench, read: JobView) -> None:
    _set(bench, read, "date", "2026-03-03")
    assert (_values(bench, read)["date"].original, _values(bench, read)["date"].state) == (None, FieldState.CHECKED)
    _set(bench, read, "date", "")
    date = _values(bench, read)["date"]
    assert (date.value, date.original is not None and date.original.value) == (None, "2026-03-03")


@pytest.mark.parametrize(
    ("path", "value"), [("date", "soon"), ("nothing", "1"), ("total[3]", "1"), ("total[0].x", "1"), ("", "1")]
)
def test_nothing_changes_when_a_correction_is_refused(sqlite_bench: Bench, path: str, value: str) -> None:
    job = _read(sqlite_bench)
    before = _values(sqlite_bench, job)
    with pytest.raises(InvalidRequest):
        _set(sqlite_bench, job, path, value)
    assert _values(sqlite_bench, job) == before


def test_another_tenant_sees_and_changes_nothing(bench: Bench, read: JobView) -> None:
    with pytest.raises(NotFound):
        document_fields(bench.context, bench.charlie.tenant_id, read.id)
    with pytest.raises(NotFound):
        correct(bench.context, bench.charlie, read.id, [Correction(1, "total", "1.00")])
    with pytest.raises(NotFound):
        correct(bench.context, bench.alice, read.id, [Correction(2, "total", "1.00")])
    with pytest.raises(Forbidden):
        reader = replace(bench.alice, scopes=frozenset({Scope.READ}))
        correct(bench.context, reader, read.id, [Correction(1, "total", "1.00")])
    assert _values(bench, read)["total"].value == "9.00"


def test_a_rerun_takes_what_was_read_and_no_correction(bench: Bench) -> None:
    bench.engine.capability = replace(bench.engine.capability, tasks=frozenset({Task.EXTRACT, Task.FIELDS}))
    bench.engine.script = [fakes.answers(SCAN)]
    upload = bench.upload()
    [job] = bench.run(submit(bench.context, bench.alice, [upload], ORDER))
    as_read = _values(bench, job)
    for value in ("99999", "8"):
        _set(bench, job, "total", value)
        _set(bench, job, "date", "2026-03-03")  # only checked
    again = submit(bench.context, bench.alice, [upload], ORDER)
    assert _values(bench, again) == as_read
    _set(bench, again, "total", "12")
    delete(bench.context, bench.alice, job.id)
    assert _values(bench, submit(bench.context, bench.alice, [upload], ORDER)) == as_read
    assert _values(bench, again)["total"].value == "12"
    assert bench.engine.calls.total() == 1


def test_a_page_without_fields_has_none_to_correct(sqlite_bench: Bench) -> None:
    [job] = sqlite_bench.run(sqlite_bench.submit())
    with pytest.raises(Conflict):
        correct(sqlite_bench.context, sqlite_bench.alice, job.id, [Correction(1, "total", "1.00")])
    with pytest.raises(Conflict, match="no fields"):
        export_job(sqlite_bench.context, sqlite_bench.alice.tenant_id, job.id, ExportFormat.CSV)


def test_exports_have_the_fields(sqlite_bench: Bench) -> None:
    job = _read(sqlite_bench, "Total 19.00\nNumber: =HYPERLINK1")
    made = export_job(sqlite_bench.context, sqlite_bench.alice.tenant_id, job.id, ExportFormat.CSV)
    content = b"".join(made.chunks)
    assert content.startswith(b"\xef\xbb\xbf")
    head, line = csv.reader(io.StringIO(content.decode("utf-8-sig")))
    assert head == ["file", "to_check", "total", "total.currency", "number", "date"]
    assert line == ["scan.png", "no", "19.00", "", "HYPERLINK1", ""]
    made = export_job(sqlite_bench.context, sqlite_bench.alice.tenant_id, job.id, ExportFormat.JSON)
    whole = json.loads(b"".join(made.chunks))
    [document] = whole["documents"]
    assert whole["template"] == {"name": "notes", "version": 3}
    assert document["fields"][0]["box"] == document["pages"][0]["page_text"]["lines"][0]["box"]


def test_several_jobs_are_one_table_without_those_of_other_tasks(bench: Bench, read: JobView) -> None:
    other = bench.submit()
    order = Order(TaskPrompt(Task.FIELDS, (FieldSpec("note"), FieldSpec("total", FieldType.MONEY))))
    bench.engine.script = [fakes.answers("Note: =1+1\nTotal 3.00 EUR")]
    second, _ = bench.run(bench.submit(order=order), other)
    correct(bench.context, bench.alice, read.id, [Correction(1, "total", "19")])
    correct(bench.context, bench.alice, second.id, [Correction(1, "note", "=1+1")])
    ids, target = [read.id, other.id, second.id, read.id], io.BytesIO()
    write_field_table(bench.context, bench.bob.tenant_id, ids, target)
    assert target.getvalue().startswith(b"\xef\xbb\xbf")
    assert list(csv.reader(io.StringIO(target.getvalue().decode("utf-8-sig")))) == [
        ["file", "job", "to_check", "total", "total.currency", "number", "date", "note"],
        ["scan.png", read.id, "yes", "19", "", "", "2026-03-03", ""],
        ["scan.png", second.id, "no", "3.00", "EUR", "", "", "'=1+1"],
    ]
    own = bench.alice.tenant_id
    with pytest.raises(Conflict, match="None of the jobs"):
        write_field_table(bench.context, own, [other.id], io.BytesIO())
    with pytest.raises(NotFound):
        write_field_table(bench.context, bench.charlie.tenant_id, ids, io.BytesIO())
    for wrong, most in (([], 1000), ([f"job_{n}" for n in range(MAX_JOBS + 1)], 1000), (ids, 100)):
        with pytest.raises(InvalidRequest):
            write_field_table(bench.context, own, wrong, io.BytesIO(), max_bytes=most)


def test_a_retry_and_a_deletion_take_the_fields_along(bench: Bench, read: JobView) -> None:
    from portal.jobs.endings import delete

    delete(bench.context, bench.alice, read.id)
    with bench.context.database.reading() as session:
        assert session.scalars(select(Page).where(Page.tenant_id == bench.alice.tenant_id)).all() == []
