from __future__ import annotations

from portal.domain import JobState, Line, PageState, PageText
from portal.ui import job_view
from tests.ui.conftest import ATTACK
from tests.ui.jobs import job, page

DONE, FAILED, QUEUED = PageState.SUCCEEDED, PageState.FAILED, PageState.QUEUED


def read(markdown: str, *, truncated: str | None = None) -> PageText:
    return PageText(800, 600, (Line(markdown, (0, 0, 9, 9), 0.9),), (), markdown, 0.9, truncated=truncated)


def test_no_markup_survives_when_names_and_text_carry_an_attack() -> None:
    hostile = page(1, DONE, file_name=ATTACK)
    shown = job(JobState.SUCCEEDED, hostile, page(2, DONE))
    text = read(f"{ATTACK} ${{alert(1)}}")
    parts = (
        job_view.bar(shown),
        job_view.strip(shown, 1),
        job_view.image(shown, hostile, exists=True),
        job_view.text(hostile, text),
        job_view.markdown(hostile, text),
        job_view.as_json(hostile, text),
    )
    for part in parts:
        assert "<img src=x" not in part
        assert "&lt;img src=x" in part


def test_headings_move_down_when_a_page_has_its_own() -> None:
    shown = job_view.text(page(1, DONE), read("# Invoice\n\n###### Small\n\nwritten as &lt;h1&gt;"))
    assert "<h3>Invoice</h3>" in shown
    assert "<h6>Small</h6>" in shown
    assert "<h1" not in shown
    assert "&lt;h1&gt;" in shown


def test_files_are_told_apart_when_a_job_has_several() -> None:
    several = job(JobState.RUNNING, page(1, DONE, file_name="a.pdf"), page(2, QUEUED, file_name="b.pdf"))
    strip = job_view.strip(several, 2)
    assert strip.index("a.pdf") < strip.index("at=1") < strip.index("b.pdf") < strip.index("at=2")
    assert job_view.heading(several) == "a.pdf and 1 more file"
    assert "<h2" not in job_view.strip(job(JobState.RUNNING, page(1, DONE), page(2, QUEUED)), 1)


def test_downloads_are_offered_only_when_something_was_read() -> None:
    assert "/files/jobs/job_1/result?format=markdown" in job_view.bar(
        job(JobState.PARTIAL, page(1, DONE), page(2, FAILED))
    )
    assert "/files/" not in job_view.bar(job(JobState.FAILED, page(1, FAILED)))
    assert 'data-action="cancel"' in job_view.bar(job(JobState.RUNNING, page(1, QUEUED)))


def test_the_cut_is_told_when_text_was_truncated() -> None:
    assert "began to repeat" in job_view.text(page(1, DONE), read("a a a", truncated="repetition"))


def test_the_reason_is_shown_when_there_is_no_text() -> None:
    assert "Retry the page" in job_view.text(page(1, FAILED), None)
    assert "not charged" in job_view.text(page(1, DONE, is_blank=True), PageText(8, 6, (), (), ""))
    assert "waits for its turn" in job_view.markdown(page(1, QUEUED), None)
