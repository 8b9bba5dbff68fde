"""States, times and counts in words, as people read them on the pages. Pure."""

from __future__ import annotations

from datetime import datetime

from portal.domain import JobState, Limit, Mode, PageState, Scope, Task
from portal.jobs.queries import JobView, PageView
from portal.languages import language_name
from portal.wording import counted as counted

TASKS = {
    Task.EXTRACT: ("Text", "Everything on the page, in reading order"),
    Task.FIELDS: ("Fields", "Only the values you name"),
    Task.TRANSLATE: ("Translate", "The page in another language"),
}
MODES = {
    Mode.DOCUMENT: "Document: headings, tables, formulas",
    Mode.TEXT: "Plain text",
    Mode.SPOTTING: "Lines with their places",
    Mode.SUBTITLES: "Subtitles only",
}
AUTOMATIC_ENGINE = "Automatic: the first that can"
JOB_STATES = {
    JobState.QUEUED: "Waiting",
    JobState.RUNNING: "Reading",
    JobState.SUCCEEDED: "Done",
    JobState.PARTIAL: "Partly done",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
}
PAGE_STATES = {
    PageState.QUEUED: "waiting",
    PageState.RUNNING: "being read",
    PageState.SUCCEEDED: "done",
    PageState.FAILED: "failed",
    PageState.CANCELLED: "cancelled",
}
SCOPES = {
    Scope.OCR: "Submit scans",
    Scope.READ: "Read results",
    Scope.CHAT: "Chat completions (OpenAI's clients)",
    Scope.PROMPT: "Prompts of your own in them",
    Scope.MEMBERS: "Manage members and invites (owners)",
}
LIMITS = {
    Limit.PAGES_PER_DAY: "Pages a day",
    Limit.PAGES_PER_MONTH: "Pages a month",
    Limit.PAGES_IN_FLIGHT: "Pages waiting or being read",
    Limit.REQUESTS_PER_MINUTE: "Requests a minute",
    Limit.UNCHARGED_PAGES_PER_DAY: "Uncharged pages a day",
}
SERIES = {
    "charged": "charged",
    "blank": "blank",
    "failed": "failed",
    "truncated": "cut",
    "free": "free",
    "returned": "not read",
}
OCCASIONS = {"submitted": "job", "retried": "retry", "request": "request"}
REQUEST_STATES = {"open": "Waiting for the admin", "granted": "Granted", "declined": "Declined"}
COUNTING = "Counting pages…"
BLANK = "No text found on this page; not charged within the day's allowance."
SAMPLE = "A sample: it costs nothing."
NO_NEW_JOBS = "What is there can still be read, exported and deleted; running work goes on. Ask the portal’s admin."
RECONNECTING = "Reconnecting… The portal cannot be reached. Accepted work goes on; this page goes on by itself."

# What static/input.js says; `{name}`, `{limit}`, `{count}` and `{reason}` stand for what it knows.
INPUT = {
    "empty": "Drop scans, paste a screenshot or take a photo",
    "empty_hint": "or try a sample below",
    "choose": "Choose files",
    "camera": "Take a photo",
    "drop_here": "Drop the files anywhere to add them",
    "list": "Files to read",
    "waiting": "waiting",
    "sending": "uploading",
    "remove": "Remove {name}",
    "added": "{count} in the list",
    "removed": "{name} removed",
    "pasted": "Pasted image {moment}.{kind}",
    "photo": "Photo {moment}.{kind}",
    "refused": "{reason} This file is left out.",
    "too_large": "{name} is larger than {limit}. Make it smaller, or split it.",
    "too_many": "{name} was left out: at most {limit} files are read in one run. Run these first.",
    "is_empty": "{name} is empty. Save it again, then add it again.",
    "upload_failed": "{name} could not be uploaded. Remove it and add it again.",
}

VIEWER_MISSING = "The page viewer could not be loaded. The job goes on, and what was read is kept."
RELOAD = "Reload the page"
RETRY_PAGE = "Retry this page"
PAGE_OUTCOMES = {
    PageState.QUEUED: "This page waits for its turn. Its text appears here by itself.",
    PageState.RUNNING: "This page is being read. Its text appears here by itself.",
    PageState.FAILED: "This page could not be read.",
    PageState.CANCELLED: "Cancelled before it was read; not charged.",
}

_NAMED_FAILURES = 3
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_KIB = 1024


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    teens = range(11, 14)
    suffix = "th" if number % 100 in teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def duration(seconds: float) -> str:
    """A rough length of time: `about 40 s`, `about 3 min`, `about 2 h`."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 100:
        return f"about {round(seconds / 5) * 5} s"
    if seconds < 90 * _MINUTE:
        return f"about {round(seconds / _MINUTE)} min"
    return f"about {round(seconds / _HOUR)} h"


def ago(at: datetime, now: datetime) -> str:
    """How long since `at`; past a week the date itself. Both aware."""
    seconds = max((now - at).total_seconds(), 0)
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min ago"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)} h ago"
    if seconds < 7 * _DAY:
        return f"{counted(int(seconds // _DAY), 'day')} ago"
    return f"{at:%Y-%m-%d}"


def byte_count(count: int) -> str:
    """`312 KB`, `4.1 MB`."""
    if count < _KIB * _KIB:
        return f"{max(round(count / _KIB), 1)} KB"
    return f"{count / _KIB / _KIB:.1f} MB".replace(".0 ", " ")


def task(job: JobView) -> str:
    """What was asked for: `Text`, `Text (Plain text)`, `Translate into English`."""
    name, _ = TASKS[job.prompt.task]
    if job.prompt.task is Task.TRANSLATE and job.prompt.language:
        return f"{name} into {language_name(job.prompt.language)}"
    return name if job.prompt.mode is Mode.DOCUMENT else f"{name} ({MODES[job.prompt.mode].partition(':')[0]})"


def progress(job: JobView) -> str:
    """One sentence on where the job stands and what the reader may do."""
    if job.outlook.binding == "second_server":
        return f"{job.outlook.detail} It is asked again in {duration(job.eta_seconds or 0)}. You can close this page."
    if job.state is JobState.QUEUED:
        return f"{_place(job)}{_remaining(job)}. You can close this page."
    if job.state is JobState.RUNNING:
        return f"Page {_current(job)} of {job.page_count}{_remaining(job)}. {_meanwhile(job)}"
    return f"{_outcome(job)} {SAMPLE}" if job.is_sample else _outcome(job)


def announcement(job: JobView) -> str:
    """What is read out when it changes: the place and the page, without the seconds that change all the time."""
    if job.outlook.binding == "second_server":
        return job.outlook.detail or ""
    if job.state is JobState.QUEUED:
        return f"{_place(job)}."
    if job.state is JobState.RUNNING:
        return f"Page {_current(job)} of {job.page_count}."
    return progress(job)


def _place(job: JobView) -> str:
    if job.outlook.binding == "engine_unavailable":
        return f"Waiting for the engine. {job.outlook.detail} Your pages are kept, and read when it is back"
    if job.pages_ahead is None:
        return "Waiting"
    return "Next in line" if job.pages_ahead == 0 else f"{ordinal(job.pages_ahead + 1)} in line"


def _remaining(job: JobView) -> str:
    return "" if job.eta_seconds is None else f", {duration(job.eta_seconds)}"


def _meanwhile(job: JobView) -> str:
    return "Finished pages open at once." if job.page_count > 1 else "You can close this page."


def _current(job: JobView) -> int:
    return min(job.counts.finished + 1, job.page_count)


def _outcome(job: JobView) -> str:
    if job.state is JobState.SUCCEEDED:
        blank = sum(page.is_blank for page in job.pages)
        is_charged = any(line.reason == "blank_over_cap" for line in job.receipt.lines)
        tail = f" {counted(blank, 'page')} without text{'' if is_charged else ', not charged'}." if blank else ""
        return f"{_read(job)}{tail}"
    done = f"{job.pages_done:,} of {counted(job.page_count, 'page')} done."
    if job.state is JobState.CANCELLED:
        return f"Cancelled. {done} The rest is not charged."
    failed = [_failure(job, page) for page in job.pages if page.state is PageState.FAILED]
    if not failed:
        return done
    more = f" {counted(len(failed) - _NAMED_FAILURES, 'more page')} failed." if len(failed) > _NAMED_FAILURES else ""
    return f"{done} {' '.join(failed[:_NAMED_FAILURES])}{more} {_charge_of_failures(job)}"


def _charge_of_failures(job: JobView) -> str:
    charged = sum(line.pages for line in job.receipt.lines if line.reason == "failed_over_cap")
    if not charged:
        return "Failed pages are not charged."
    return f"{counted(charged, 'page')} of them charged: past the day's uncharged pages."


def _read(job: JobView) -> str:
    """How many pages were read, and how many of them before: those are free."""
    before = sum(page.is_reused for page in job.pages)
    if not before:
        return f"{counted(job.pages_done, 'page')} read."
    if before == job.pages_done:
        return f"{counted(before, 'page')} read before, free."
    return f"{counted(job.pages_done, 'page')} read, {before:,} of them before, free."


def _failure(job: JobView, page: PageView) -> str:
    of_file = f" of {page.file_name}" if len(job.documents) > 1 else ""
    reason = page.error.message if page.error else "It could not be read."
    return f"Page {page.number}{of_file}: {reason.removeprefix(f'Page {page.number}: ')}"
