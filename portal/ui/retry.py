"""The button that has failed pages read again, and what such buttons name; the viewer draws that of one page."""

from __future__ import annotations

from markupsafe import Markup

from portal.jobs.queries import JobView
from portal.ui import words


def job_button(job: JobView) -> Markup:
    """For all failed pages of a finished job; nothing where there is none."""
    if not job.is_final or not job.pages_failed:
        return Markup("")
    return Markup('<button type="button" class="button" id="retry-job" data-action="retry">Retry {}</button>').format(
        words.counted(job.pages_failed, "failed page")
    )


def position(target: object) -> int | None:
    """The position that a button named; None for the whole job, nought for what makes no sense."""
    text = str(target or "")
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
