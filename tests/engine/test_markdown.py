"""What a page says comes back literally when its Markdown is rendered, and stays readable as source."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from portal.engine.markdown import escape_inline, escape_line, to_markdown
from portal.page_text import Block, Line

_STRICTEST = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _line(text: str, x0: int = 0, x1: int = 100) -> Line:
    return Line(text, (x0, 0, x1, 10), 0.9)


def _text_block(*texts: str) -> tuple[list[Line], list[Block]]:
    return [_line(text) for text in texts], [Block("text", tuple(((i,),) for i in range(len(texts))))]


def _rendered(markdown: str) -> tuple[str, set[str]]:
    page = _STRICTEST.render(markdown)
    tags = set(re.findall(r"<([a-z0-9]+)", page))
    return html.unescape(re.sub(r"</?[a-z][^>]*>", "", page)), tags


def _words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize(
    "text",
    [
        "# 12 bolts",
        "1. Januar",
        "2) second",
        "<img src=x onerror=alert(1)>",
        "* 5 % discount",
        "*** PAID ***",
        "**** **** **** 1234",
        "- - -",
        "---",
        "===",
        "+ 49 30 1234",
        "> quoted",
        "[x]: javascript:alert(1)",
        "[click](javascript:alert(1))",
        "![pixel](https://example.org/x.png)",
        "<https://example.org>",
        "AT&amp;T &copy; &#65;",
        "`code` ``",
        "~~~",
        "~~old~~ price",
        r"C:\*temp\\x" + "\\",
        "__init__ and _this_",
        "|---|---|",
        ":--",
        "<!-- hidden -->",
        "a | b",
    ],
)
def test_text_shows_literally_when_it_looks_like_markup(text: str) -> None:
    shown, tags = _rendered(to_markdown(*_text_block("before", text, "after")))
    assert _words(shown) == _words(f"before {text} after")
    assert tags <= {"p", "br"}


@given(
    st.lists(
        st.text(st.sampled_from("ab1 .)#*_-+=`~<>&;![]():|\\/\"'é漢"), min_size=1, max_size=14),
        min_size=1,
        max_size=4,
    )
)
def test_any_text_shows_literally_when_rendered(texts: list[str]) -> None:
    shown, tags = _rendered(to_markdown(*_text_block(*texts)))
    assert _words(shown) == _words(" ".join(texts))
    assert tags <= {"p", "br"}


@given(st.lists(st.text(st.sampled_from("ab1 .#*_-`~<>&;![]()|\\"), max_size=10), min_size=4, max_size=4))
def test_any_cell_shows_literally_when_rendered(texts: list[str]) -> None:
    lines = [_line(text) for text in texts]
    markdown = to_markdown(lines, [Block("table", (((0,), (1,)), ((2,), (3,))))])
    shown, tags = _rendered(markdown)
    assert _words(shown) == _words(" ".join(texts))
    assert tags == {"table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    "text",
    [
        "Total: 9.00 € (incl. 19 % VAT)",
        "snake_case_name",
        "5 * 3 = 15",
        "a < b & c",
        "-5.00",
        "[1] Smith",
        "#4",
        "1.5 kg",
        "~5",
    ],
)
def test_source_stays_as_it_is_when_nothing_in_it_is_markup(text: str) -> None:
    assert escape_line(text) == text


def test_bars_are_escaped_when_they_stand_in_a_cell() -> None:
    lines = [_line("a|b"), _line("c"), _line("1"), _line("2")]
    markdown = to_markdown(lines, [Block("table", (((0,), (1,)), ((2,), (3,))))])
    assert markdown == "| a\\|b | c |\n| --- | --- |\n| 1 | 2 |"


def test_breaks_are_hard_when_lines_end_early_and_soft_in_prose() -> None:
    receipt, blocks = [_line("Milk", 0, 40), _line("Bread and butter", 0, 90)], [Block("text", (((0,),), ((1,),)))]
    assert to_markdown(receipt, blocks) == "Milk  \nBread and butter"
    prose = [_line("a long line of text", 0, 100), _line("and a second line", 0, 99), _line("that ends here", 0, 98)]
    assert to_markdown(prose, [Block("text", (((0,),), ((1,),), ((2,),)))]) == "\n".join(line.text for line in prose)


def test_blocks_are_apart_and_fragments_of_a_row_are_joined() -> None:
    lines = [_line("Total"), _line("9.00"), _line("Thank you")]
    blocks = [Block("text", (((0, 1),),)), Block("text", (((2,),),))]
    assert to_markdown(lines, blocks) == "Total 9.00\n\nThank you"


def test_inline_escape_leaves_line_marks_alone() -> None:
    assert escape_inline("# 1. x") == "# 1. x"
