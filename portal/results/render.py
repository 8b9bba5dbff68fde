"""Markdown of a page to HTML that is safe to insert: nothing a scan says can run, load or link anywhere.

Two fences: the parser takes no HTML, links or images (they show as the text they are), and an allow-list
sanitizer cleans what it made, so that a fault of one is not a hole.
"""

from __future__ import annotations

import nh3
from markdown_it import MarkdownIt

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "ul", "ol", "li"),
    *("strong", "em", "s", "table", "thead", "tbody", "tr", "th", "td"),
}

_parser = (
    MarkdownIt("commonmark", {"html": False, "breaks": True})
    .enable(["table", "strikethrough"])
    .disable(["link", "image", "autolink", "html_inline", "html_block", "reference"])
)


def markdown_to_html(markdown: str) -> str:
    """HTML of text tags only, without attributes except the start of a numbered list. Line breaks are kept."""
    return nh3.clean(_parser.render(markdown), tags=_TAGS, attributes={"ol": {"start"}}, link_rel=None)
