"""The words in which a document is refused: one function for each code, message and remedy together.

Messages start in lower case because `about` puts the file's name (intake) or the page (rasterize) before them.
"""

from __future__ import annotations

from portal.documents.formats import TAKEN
from portal.errors import DocumentRefused

_SAVE_ANEW = "Open it in another program, save or print it to a new PDF and upload that."


def about(subject: str, refusal: DocumentRefused) -> DocumentRefused:
    """The same refusal, naming what is refused: a file name or a page."""
    return DocumentRefused(f"{subject}: {refusal.message}", code=refusal.code, remedy=refusal.remedy)


def empty() -> DocumentRefused:
    """Zero bytes arrived."""
    return DocumentRefused(
        "the file is empty.", code="file_empty", remedy="Check the file on your side and upload it again."
    )


def type_unknown() -> DocumentRefused:
    """The bytes are of no format that is taken, whatever the name says."""
    return DocumentRefused(
        "this is not a kind of file that can be read.",
        code="file_type_unknown",
        remedy=f"Upload {TAKEN}; the content counts, not the name.",
    )


def encrypted() -> DocumentRefused:
    """A PDF that does not open without a password."""
    return DocumentRefused(
        "the PDF is protected by a password.",
        code="file_encrypted",
        remedy="Remove the password (print it to a new PDF) and upload that.",
    )


def corrupt() -> DocumentRefused:
    """The decoder of its format could not make sense of it."""
    return DocumentRefused("it is damaged or cut short.", code="file_corrupt", remedy=_SAVE_ANEW)


def too_large(size_bytes: int, limit_bytes: int) -> DocumentRefused:
    """More bytes than one file may have."""
    return DocumentRefused(
        f"the file has {_size(size_bytes, limit_bytes)}; the limit is {_size(limit_bytes, limit_bytes)}.",
        code="file_too_large",
        remedy="Split it, or save it with a lower resolution (200 to 300 dpi is enough).",
    )


def too_many_pages(count: int | None, limit: int) -> DocumentRefused:
    """More pages than one document may have; `count` is None where counting stopped at the limit."""
    found = f"more than {limit:,}" if count is None else f"{count:,}"
    return DocumentRefused(
        f"the file has {found} pages; the limit is {limit:,}.",
        code="too_many_pages",
        remedy="Split it into smaller files.",
    )


def by_plan(refusal: DocumentRefused, plan: str) -> DocumentRefused:
    """The same refusal where the tenant's own limit binds, not the portal's: its plan is named, and whom to ask."""
    message = f"{refusal.message.removesuffix('.')} by your plan ({plan})."
    remedy = f"{refusal.remedy} Or ask for more on the Usage page."
    return DocumentRefused(message, code=refusal.code, remedy=remedy)


def too_many_pixels(width_px: int, height_px: int, limit: int) -> DocumentRefused:
    """A raster page larger than a page may be; PDF pages are scaled down instead."""
    return DocumentRefused(
        f"a page has {width_px:,} × {height_px:,} pixels; the limit is {limit / 1e6:g} million pixels.",
        code="too_many_pixels",
        remedy="Save it with a lower resolution (200 to 300 dpi is enough).",
    )


def unreadable(reason: str) -> DocumentRefused:
    """The process that opened it did not survive: `reason` is ChildFailure's died, timeout or memory."""
    what = {
        "timeout": "reading it took longer than one page may take",
        "memory": "reading it needs more memory than one page may take",
    }.get(reason, "it stopped the program that reads it")
    return DocumentRefused(f"{what}.", code="file_unreadable", remedy=_SAVE_ANEW)


def _size(size_bytes: int, limit_bytes: int) -> str:
    """Rounded up to a tenth, so that one byte too many never reads as the limit itself."""
    unit, name = (2**20, "MB") if limit_bytes >= 2**20 else (2**10, "kB")
    return f"{-(-size_bytes * 10 // unit) / 10:,g} {name}"
