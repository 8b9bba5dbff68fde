from __future__ import annotations

from portal.domain import JobState, PageState
from portal.ui import job_view
from tests.ui.conftest import ATTACK
from tests.ui.jobs import job, page

DONE, FAILED, QUEUED = PageState.SUCCEEDED, PageState.FAILED, PageState.QUEUED


def test_no_markup_survives_when_names_carry_an_attack() -> None:
    shown = job(JobState.SUCCEEDED, page(1, DONE, file_name=ATTACK), page(2, DONE))
    assert "<img src=x" not in job_view.bar(shown)
    assert "&lt;img src=x" in job_view.bar(shown)


def test_files_are_counted_when_a_job_has_several() -> None:
    several = job(JobState.RUNNING, page(1, DONE, file_name="a.pdf"), page(2, QUEUED, file_name="b.pdf"))
    assert job_view.heading(several) == "a.pdf and 1 more file"


def test_downloads_are_offered_only_when_something_was_read() -> None:
    assert "/files/jobs/job_1/result?format=markdown" in job_view.bar(
        job(JobState.PARTIAL, page(1, DONE), page(2, FAILED))
    )
    assert "/files/" not in job_view.bar(job(JobState.FAILED, page(1, FAILED)))
    assert 'data-action="cancel"' in job_view.bar(job(JobState.RUNNING, page(1, QUEUED)))
