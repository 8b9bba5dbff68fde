"""Pages to documents: the order in which a job's pages are handed out, whatever order they were read in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portal.domain import PageState, PageText


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


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """One document of a job with its pages in order."""

    id: str
    file_name: str
    pages: tuple[ReadPage, ...]


def assemble(pages: Sequence[ReadPage]) -> tuple[ReadDocument, ...]:
    """Documents in the order of their first page, each with its pages by position."""
    by_document: dict[str, list[ReadPage]] = {}
    for page in sorted(pages, key=lambda page: page.position):
        by_document.setdefault(page.document_id, []).append(page)
    return tuple(ReadDocument(id, own[0].file_name, tuple(own)) for id, own in by_document.items())


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
