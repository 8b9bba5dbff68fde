from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from portal.domain import JobState, PageState
from portal.jobs.forecast import Outlook
from portal.ui import words
from portal.usage.receipts import Receipt, ReceiptLine
from tests.ui.jobs import NOW, job, page

DONE, FAILED, RUNNING, QUEUED = PageState.SUCCEEDED, PageState.FAILED, PageState.RUNNING, PageState.QUEUED


def test_place_and_time_are_told_when_a_job_waits() -> None:
    waiting = job(JobState.QUEUED, page(1, QUEUED), pages_ahead=2, eta_seconds=41)
    assert words.progress(waiting) == "3rd in line, about 40 s. You can close this page."
    assert words.progress(job(JobState.QUEUED, page(1, QUEUED), pages_ahead=0)).startswith("Next in line.")


def test_what_does_not_answer_and_when_it_is_asked_again_is_told_when_a_job_waits_for_a_second_server() -> None:
    running = job(JobState.RUNNING, page(1, QUEUED))
    waiting = replace(running, outlook=Outlook(None, 601, "second_server", "The text model does not answer."))
    told = "The text model does not answer. It is asked again in about 10 min. You can close this page."
    assert (words.progress(waiting), words.announcement(waiting)) == (told, "The text model does not answer.")


def test_page_of_pages_is_told_when_a_job_runs() -> None:
    running = job(JobState.RUNNING, page(1, DONE), page(2, RUNNING), page(3, QUEUED), eta_seconds=130)
    assert words.progress(running) == "Page 2 of 3, about 2 min. Finished pages open at once."


def test_reason_is_given_and_failed_pages_are_said_to_be_free_when_a_job_is_partial() -> None:
    partial = job(JobState.PARTIAL, page(1, DONE), page(2, FAILED))
    told = "1 of 2 pages done. Page 2: The page took longer than 120 s. Failed pages are not charged."
    assert words.progress(partial) == told
    several = job(JobState.PARTIAL, page(1, FAILED, file_name="a.pdf"), *(page(n, FAILED) for n in range(2, 6)))
    assert words.progress(several).startswith("0 of 5 pages done. Page 1 of a.pdf: The page took")
    assert "2 more pages failed. Failed pages are not charged." in words.progress(several)


def test_the_rest_is_said_to_be_free_when_a_job_is_cancelled() -> None:
    cancelled = job(JobState.CANCELLED, page(1, DONE), page(2, PageState.CANCELLED))
    assert words.progress(cancelled) == "Cancelled. 1 of 2 pages done. The rest is not charged."


def test_only_what_changes_rarely_is_read_out_when_a_job_is_under_way() -> None:
    waiting = job(JobState.QUEUED, page(1, QUEUED), pages_ahead=2, eta_seconds=41)
    assert words.announcement(waiting) == "3rd in line."
    running = job(JobState.RUNNING, page(1, DONE), page(2, RUNNING), eta_seconds=130)
    assert words.announcement(running) == "Page 2 of 2."
    done = job(JobState.SUCCEEDED, page(1, DONE))
    assert words.announcement(done) == words.progress(done) == "1 page read."


def test_a_sample_is_said_to_cost_nothing_when_it_is_done() -> None:
    sample = replace(job(JobState.SUCCEEDED, page(1, DONE)), is_sample=True)
    assert words.progress(sample) == "1 page read. A sample: it costs nothing."


def test_file_and_limit_and_way_out_are_named_when_an_upload_is_refused() -> None:
    assert words.INPUT["empty"] == "Drop scans, paste a screenshot or take a photo"
    for refusal in ("too_large", "too_many", "is_empty", "upload_failed"):
        assert "{name}" in words.INPUT[refusal]
        assert words.INPUT[refusal].count(".") == 2, "what happened, then what to do"
    assert words.RECONNECTING.startswith("Reconnecting…")


def test_blank_pages_are_said_to_be_free_when_a_job_is_done() -> None:
    done = job(JobState.SUCCEEDED, page(1, DONE), page(2, DONE, is_blank=True))
    assert words.progress(done) == "2 pages read. 1 page without text, not charged."


@pytest.mark.parametrize(
    ("number", "expected"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (122, "122nd")]
)
def test_ordinals_read_right_when_counted(number: int, expected: str) -> None:
    assert words.ordinal(number) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(2, "a few seconds"), (41, "about 40 s"), (150, "about 2 min"), (5000, "about 83 min"), (8000, "about 2 h")],
)
def test_durations_are_rough_when_told(seconds: float, expected: str) -> None:
    assert words.duration(seconds) == expected


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(minutes=3), "3 min ago"),
        (timedelta(hours=5), "5 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=40), "2026-01-31"),
    ],
)
def test_past_times_become_dates_when_they_are_old(passed: timedelta, expected: str) -> None:
    assert words.ago(NOW - passed, NOW) == expected


def test_sizes_are_short_when_told() -> None:
    assert [words.byte_count(size) for size in (10, 320_000, 100 * 2**20)] == ["1 KB", "312 KB", "100 MB"]


def test_failures_are_not_called_free_when_some_were_charged() -> None:
    failed = job(JobState.PARTIAL, page(1, DONE), page(2, FAILED))
    charged = replace(failed, receipt=Receipt((ReceiptLine("posted", "failed_over_cap", 1),)))
    assert words.progress(failed).endswith("Failed pages are not charged.")
    assert words.progress(charged).endswith("1 page of them charged: past the day's uncharged pages.")
