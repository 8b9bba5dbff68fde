"""Jobs as the pages are given them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from portal.domain import JobState, PageState, TaskPrompt
from portal.jobs.forecast import Outlook
from portal.jobs.queries import DocumentView, JobView, PageCounts, PageError, PageView

NOW = datetime(2026, 3, 12, 9, 30, tzinfo=UTC)
TIMEOUT = PageError("engine_timeout", "The page took longer than 120 s.", "Retry the page.")


def document(name: str = "letter.pdf", *, pages: int = 1) -> DocumentView:
    """A document whose id is its name."""
    return DocumentView(name, name, "application/pdf", 320_000, pages)


def page(position: int, state: PageState, *, file_name: str = "letter.pdf", is_blank: bool = False) -> PageView:
    """A page of the document with that name; its number is its position."""
    error = TIMEOUT if state is PageState.FAILED else None
    return PageView(position, position, file_name, file_name, state, is_blank, None, 1, error, None)


def job(state: JobState, *pages: PageView, pages_ahead: int | None = None, eta_seconds: float | None = None) -> JobView:
    """A job of these pages, sent by Maria from a browser."""
    names = dict.fromkeys(page.file_name for page in pages)
    counts = Counter(page.state.value for page in pages)
    return JobView(
        id="job_1",
        state=state,
        task="extract",
        prompt=TaskPrompt(),
        engine="embedded",
        created_at=NOW,
        started_at=None,
        finished_at=None,
        page_count=len(pages),
        counts=PageCounts(**counts, blank=sum(page.is_blank for page in pages)),
        documents=tuple(document(name) for name in names),
        pages=pages,
        outlook=Outlook(pages_ahead, eta_seconds),
        submitted_by="maria@acme.example",
        via="browser",
    )
