"""The price before a run as HTML: pages, what is left, seconds; or the choices of what does fit.

The buttons are made to work by static/input.js. File names are other people's words: Markup escapes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from markupsafe import Markup

from portal.domain import Limit
from portal.errors import LimitReached, PortalError
from portal.jobs.page_numbers import written_page_numbers
from portal.jobs.price import FilePrice, Price
from portal.ui import markup, messages, usage_words

_SHOWN_FILES = 12


def price(found: Price) -> Markup:
    """What the files cost."""
    refusal, left = found.refusal, found.standing.pages_left
    if left is not None and found.pages > left and _is_of_pages(refusal):
        return _panel(_too_many(found, left), found, fits=False)
    if refusal is None:
        return _panel(Markup("<p>{}</p>").format(_bold_pages(found)), found, fits=True)
    if any(file.error is refusal for file in found.files):
        told = Markup("<p>{}</p>").format(_bold_pages(found)) if found.pages or found.free_pages else Markup("")
        return _panel(Markup("{}<p>{}</p>").format(told, messages.sentence(refusal)), found, fits=False)
    return unpriced(refusal)


def unpriced(error: PortalError) -> Markup:
    """Why there is no price."""
    return Markup('<div class="price" data-fits="no" role="status"><p><b>{}.</b> {}</p></div>').format(
        messages.title(error), messages.sentence(error)
    )


def _is_of_pages(refusal: PortalError | None) -> bool:
    if isinstance(refusal, LimitReached):
        return refusal.limit in (Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH, Limit.PAGES_IN_FLIGHT)
    return refusal is not None and refusal.code == "too_many_pages"


def _panel(told: Markup, found: Price, *, fits: bool) -> Markup:
    files = _files(found.files) if len(found.files) > 1 else Markup("")
    return Markup('<div class="price" data-fits="{}" role="status">{}{}</div>').format(
        "yes" if fits else "no", told, files
    )


def _bold_pages(found: Price) -> Markup:
    pages, dot, rest = usage_words.price(found).partition(" · ")
    return Markup("<b>{}</b>{}{}").format(pages, dot, rest)


def _files(files: Sequence[FilePrice]) -> Markup:
    items = markup.joined(
        Markup("<li>{}: {}</li>").format(file.file_name, _file_words(file)) for file in files[:_SHOWN_FILES]
    )
    rest = len(files) - _SHOWN_FILES
    more = Markup("<li>and {} more files</li>").format(rest) if rest > 0 else Markup("")
    return Markup('<ul aria-label="Pages of each file">{}{}</ul>').format(items, more)


def _file_words(file: FilePrice) -> str:
    if file.error is not None:
        return "cannot be read as chosen" if file.page_count else "cannot be read"
    wanted = len(file.numbers)
    if wanted == file.page_count:
        return usage_words.with_free(file.pages, file.free_pages)
    free = f", {usage_words.number(file.free_pages)} of them free" if file.free_pages else ""
    return f"{usage_words.number(wanted)} of {usage_words.pages(file.page_count)}{free}"


def _too_many(found: Price, left: int) -> Markup:
    limit = usage_words.tightest(found.standing)
    ask = Markup('<a class="button" href="/usage?ask={}#ask">Ask for more</a>').format(limit.limit if limit else "")
    pick = Markup('<button type="button" class="button" data-choose>Choose pages</button>')
    return Markup('<p><b>{}.</b></p><div class="price-choices">{}{}{}</div><p>{}</p>').format(
        usage_words.shortage(found), _fewer(found.files, left), pick, ask, usage_words.resets(found.standing)
    )


def _fewer(files: Sequence[FilePrice], left: int) -> Markup:
    """The button that takes what fits: the first files whole, or the first pages of the first file."""
    whole = sum(pages <= left for pages in accumulate(file.pages for file in files))
    if whole:
        pages = usage_words.pages(sum(len(file.numbers) for file in files[:whole]))
        told = f"Read only the first {'file' if whole == 1 else f'{whole} files'} ({pages})"
        return Markup('<button type="button" class="button primary" data-keep="{}">{}</button>').format(whole, told)
    first = files[0]
    too_far = [number for number in first.numbers if number not in first.free][left]
    wanted = [number for number in first.numbers if number < too_far]
    if not wanted:
        return Markup("")
    many = len(files) > 1
    told = f"{usage_words.pages(len(wanted))} of the first file" if many else usage_words.number(len(wanted))
    return Markup(
        '<button type="button" class="button primary" data-keep="1" data-range="{}">Read only the first {}</button>'
    ).format(written_page_numbers(wanted), told)
