"""Answers of checkpoints become pages: tables, formulas, boxes, and nothing that a scan says as markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import PageImage
from portal.engine.answers import clean_markdown, page_text
from portal.engine.answers.html_tables import MAX_CELLS, table_rows
from portal.engine.answers.inline import formulas
from portal.engine.answers.raw_lines import unfenced
from portal.engine.profiles.base import AnswerForm
from portal.page_text import PageText
from portal.results.render import markdown_to_html
from portal.results.serial import page_text_from_json, page_text_to_json

IMAGE = PageImage(Path("page.png"), 2000, 1000)


def _read(text: str, form: AnswerForm = AnswerForm.MARKDOWN, **options: object) -> PageText:
    return page_text(text, form, IMAGE, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("```markdown\n# Title\n\nText\n```", "# Title\n\nText"),
        ("Text<br/>more <b>bold</b> <u>under</u>", "Text\nmore **bold** under"),
        ("<h2>Title</h2>", "## Title"),
        ('<div align="center">Middle</div>', "Middle"),
        ("m<sup>2</sup>, CO<sub>2</sub>, 1<sup>st</sup>", "m², CO₂, 1st"),
        ("Fish &amp; Chips&nbsp;&euro; 5", "Fish & Chips € 5"),
        ("a < b and b > c, <Ort, Datum>", "a < b and b > c, \\<Ort, Datum>"),
        ("$a<b$ and $$x < y$$", "$a< b$ and $$x < y$$"),
        ("$$\n\\frac{a}{b}\n\n+ c\n$$", "$$\n\\frac{a}{b}\n\n+ c\n$$"),
        ("```\ncode | a <b>\n```\nafter", "```\ncode | a <b>\n```\n\nafter"),
        (
            "<table><tr><td rowspan=2>A</td><td>B</td></tr><tr><td>C</td></tr></table>",
            "| A | B |\n| --- | --- |\n|  | C |",
        ),
        ("Before <table><tr><td>1|2</td></tr></table> after", "Before\n\n| 1\\|2 |\n| --- |\n\nafter"),
        ("<table><tr><td>cut sho", "| cut sho |\n| --- |"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |", "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |"),
        ("a | b\nno table", "a | b\nno table"),
        ("[click](javascript:alert(1))", "\\[click](javascript:alert(1))"),
    ],
)
def test_markdown_is_kept_without_its_html(said: str, kept: str) -> None:
    assert clean_markdown(said) == kept


@pytest.mark.parametrize(
    "said", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "$<img src=x onerror=a()>$"]
)
def test_nothing_runs_when_a_scan_says_markup(said: str) -> None:
    markdown = clean_markdown(said)
    assert "<script" not in markdown.replace("\\<", "")
    assert "<img" not in markdown.replace("\\<", "")
    assert "<img" not in markdown_to_html(markdown)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Preis 5$, dann 7$", []),
        ("$5 and $7", []),
        ("$ 5.00 | Total $ 7.00", []),
        ("US$5-US$7", []),
        ("3$ or 4$ and $x$", ["$x$"]),
        ("$a$2 and $2x$", ["$a$", "$2x$"]),
        (r"25$^\circ$C, 3$ \times $4, $ 10^{-3} $ mol", [r"$^\circ$", r"$ \times $", "$ 10^{-3} $"]),
        ("$$x$$ 5$", ["$$x$$"]),
    ],
)
def test_dollars_are_formulas_only_where_they_are_no_prices(text: str, kept: list[str]) -> None:
    assert formulas(text) == kept


def test_lines_are_plain_and_belong_to_their_blocks() -> None:
    page = _read("# The *Title*\n\nOne **bold** line\ntwo $x_1^2$\n\n|a|b|\n|-|-|\n|`c`|**d**|")
    assert [line.text for line in page.lines] == ["The Title", "One bold line", "two $x_1^2$", "a", "b", "`c`", "d"]
    assert [block.kind for block in page.blocks] == ["text", "text", "table"]
    assert sorted(at for block in page.blocks for row in block.rows for cell in row for at in cell) == list(range(7))


def test_pictures_give_their_boxes_and_no_text() -> None:
    page = _read("![image](image_0.png) 100,200,500,1000\n\n![image](image_1.png)")
    assert page.figures == ((200, 200, 1000, 1000),)
    assert page.is_blank


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ("Hello(1,2),(3,4)World(5,6),(7,8)", [("Hello", (2, 2, 6, 4)), ("World", (10, 6, 14, 8))]),
        ("金额(小写)(100,200),(300,400)", [("金额(小写)", (200, 200, 600, 400))]),
        ("Back(300,400),(100,200)", [("Back", (200, 200, 600, 400))]),
        ("Far(1,2),(9999,9999)", [("Far", (2, 2, 2000, 1000))]),
        ("Whole(1,2),(3,4)\nCut (5,", [("Whole", (2, 2, 6, 4)), ("Cut (5,", None)]),
        ("", []),
    ],
)
def test_spotted_lines_have_boxes_in_page_pixels(said: str, lines: list[tuple[str, object]]) -> None:
    page = _read(said, AnswerForm.SPOTTING)
    assert [(line.text, line.box) for line in page.lines] == lines
    assert page_text_from_json(page_text_to_json(page)) == page


def test_listed_lines_are_read_when_the_list_is_cut_short() -> None:
    said = '```json\n[{"box": [1, 2, 3, 4], "text": "a \\"b\\"\t\\n c"},\n {"box": [1, 2'
    assert [line.text for line in _read(said, AnswerForm.SPOTTING_JSON).lines] == ['a "b" c']


def test_plain_text_is_not_taken_for_markdown() -> None:
    page = _read("# 1 <b>\n*x*\n\nnext", AnswerForm.TEXT)
    assert page.text == "# 1 <b>\n*x*\n\nnext"
    assert "<b>" not in markdown_to_html(page.markdown)


def test_scores_are_those_of_each_lines_tokens() -> None:
    page = _read("ab\ncd", marks=[(0, 0.0), (1, 0.0), (3, -0.693147), (4, -0.693147)])
    assert [round(line.score or 0, 3) for line in page.lines] == [1.0, 0.5]
    assert page.confidence == pytest.approx(0.75)
    assert page.lines_to_check is None


def test_huge_spans_are_bounded() -> None:
    rows = table_rows("<table>" + '<tr><td colspan="9999" rowspan="9999">x</td></tr>' * 500 + "</table>")
    assert sum(map(len, rows)) < 3 * MAX_CELLS


@pytest.mark.parametrize("form", list(AnswerForm))
@pytest.mark.parametrize(
    "unit", ["\\( ", "\\[\n", "![", "<!--", "$$x\n", "```", "**a ", "(1,2) word ", "<table><tr><td>"]
)
def test_strange_answers_are_read_in_bounded_time(unit: str, form: AnswerForm) -> None:
    _read(unit * (40_000 // len(unit)), form)  # the test's own timeout is what would fail


@given(st.text(alphabet="`\n a", max_size=12))
def test_a_fence_is_taken_off_as_its_grammar_says(inner: str) -> None:
    grammar = re.compile(r"\A\s*```(?:markdown|md)?[ \t]*\n(.*?)(?:\n```)?\s*\Z", re.DOTALL)
    for said in (f"```\n{inner}", f"```md\n{inner}\n```"):
        found = grammar.match(said)
        assert unfenced(said) == (found[1] if found and "\n```" not in found[1] else said)


def test_a_fence_without_end_is_read_in_linear_time() -> None:
    said = "```\n" + " \n\t" * 100_000 + "x"  # quadratic, this would take the test's whole time
    assert unfenced(said) == said.removeprefix("```\n")


@given(st.text(alphabet='ab<>/|$`\\[](){}"=*_~#-\n td', max_size=300), st.sampled_from(list(AnswerForm)))
def test_any_answer_becomes_a_page_that_can_be_stored(said: str, form: AnswerForm) -> None:
    page = _read(said, form)
    assert page_text_from_json(page_text_to_json(page)) == page
    used = [at for block in page.blocks for row in block.rows for cell in row for at in cell]
    assert sorted(used) == list(range(len(page.lines)))
    for block in page.blocks:
        assert block.kind == "text" or len({len(row) for row in block.rows}) == 1
