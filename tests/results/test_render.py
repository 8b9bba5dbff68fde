"""Nothing that a scan says can run, load or link when its Markdown is shown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.results.render import markdown_to_html


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "<svg/onload=alert(1)>",
        "[click](javascript:alert(1))",
        "[click](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](https://example.org/pixel.png)",
        "<javascript:alert(1)>",
        "[a]: javascript:alert(1)\n\n[a]",
        "<table><tr><td onclick=alert(1)>x</td></tr></table>",
        "<iframe src=//example.org></iframe>",
        "| a |\n| --- |\n| <img src=x onerror=alert(1)> |",
        "```html\n<img src=x onerror=alert(1)>\n```",
    ],
)
def test_no_attribute_or_active_tag_comes_out_when_the_text_is_hostile(hostile: str) -> None:
    page = markdown_to_html(hostile)
    assert re.findall(r"<[a-z0-9]+\s", page) == []
    assert not re.search(r"<(img|script|svg|a|iframe|style|object)\b", page)


def test_markup_of_a_scan_shows_as_text_when_it_is_html() -> None:
    assert markdown_to_html("<img src=x onerror=alert(1)>") == "<p>&lt;img src=x onerror=alert(1)&gt;</p>\n"


@given(st.text(st.sampled_from("<>/abi mgscript=\"'&;:()[]!`*_#|-\n\\x"), max_size=60))
def test_only_allowed_tags_come_out_for_any_text(text: str) -> None:
    tags = re.findall(r"<\s*([^\s>/]+)([^>]*)>", markdown_to_html(text))
    assert all(not rest.strip(" /") or name == "ol" for name, rest in tags)


def test_tables_headings_and_lists_render_when_written_in_markdown() -> None:
    page = markdown_to_html("# Invoice\n\n| Item | Price |\n| --- | --- |\n| Pen | 2 |\n\n3. third\n\nline\nline")
    for part in ("<h1>Invoice</h1>", "<th>Item</th>", "<td>Pen</td>", '<ol start="3">', "line<br>"):
        assert part in page
