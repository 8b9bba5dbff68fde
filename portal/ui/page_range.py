"""What people type as a page range, in the page's own words when it is none."""

from __future__ import annotations

from portal.errors import InvalidRequest
from portal.jobs.page_numbers import parse_page_numbers

_REMEDY = "Write page numbers and ranges with commas, like 1-3, 7; leave it empty for all pages."


def parse(text: str, *, max_pages: int) -> tuple[int, ...] | None:
    """`1-3, 7` → (1, 2, 3, 7), ascending and without repeats; None for an empty text (all pages).

    Raises InvalidRequest saying what is wrong.
    """
    if not text.strip(" ,;"):
        return None
    try:
        return parse_page_numbers(text.replace(";", ","), first=1, limit=max_pages)
    except ValueError as error:
        raise InvalidRequest(f"The page choice {error}.", code="page_out_of_range", remedy=_REMEDY) from error
