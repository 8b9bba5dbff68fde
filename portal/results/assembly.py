"""A page of a job as it is handed out, and the words for one that has no text."""

from __future__ import annotations

from dataclasses import dataclass

from portal.domain import PageState
from portal.page_text import PageText


@dataclass(frozen=True, slots=True)
class ReadPage:
    """One page of a job. `position` counts over the job, `number` in its document; both start at 1.

    `text` is None until the page succeeded; `error` says in words why it failed.
    """

    position: int
    number: int
    document_id: str
    file_name: str
    state: PageState
    text: PageText | None
    error: str | None


def shown_text(page: ReadPage) -> PageText | None:
    """The page's text when there is any to show: it succeeded and is not blank."""
    return page.text if page.text is not None and not page.text.is_blank else None


def absence(page: ReadPage) -> str:
    """Why a page shows no text, as one sentence for people."""
    match page.state:
        case PageState.SUCCEEDED:
            return f"Page {page.number} is blank."
        case PageState.FAILED:
            return f"Page {page.number} could not be read: {page.error or 'the engine failed.'}"
        case PageState.CANCELLED:
            return f"Page {page.number} was not read: the job was cancelled."
        case _:
            return f"Page {page.number} has not been read yet."
