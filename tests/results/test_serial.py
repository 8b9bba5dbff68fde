"""A PageText comes back equal from its JSON, and its JSON can be stored by any database."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.engine.fakes import GARBAGE, written
from portal.page_text import Block, Line, PageText, Translation
from portal.results.serial import page_text_from_json, page_text_to_json

_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_pixels = st.integers(0, 5000)
_lines = st.builds(
    Line,
    text=_texts,
    box=st.tuples(_pixels, _pixels, _pixels, _pixels),
    score=st.none() | st.floats(0, 1),
    quad=st.none() | st.tuples(*[st.floats(0, 5000)] * 8),
)


@st.composite
def _pages(draw: st.DrawFn) -> PageText:
    lines = tuple(draw(st.lists(_lines, max_size=4)))
    cells = st.lists(st.sampled_from(range(len(lines))), max_size=2).map(tuple) if lines else st.just(())
    rows = st.lists(st.lists(cells, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple)
    return PageText(
        width_px=draw(_pixels),
        height_px=draw(_pixels),
        lines=lines,
        blocks=tuple(draw(st.lists(st.builds(Block, st.sampled_from(["text", "table"]), rows), max_size=2))),
        markdown=draw(_texts),
        confidence=draw(st.none() | st.floats(0, 1)),
        rotation_degrees=draw(st.sampled_from([0, 90, 180, 270])),
        skew_degrees=draw(st.floats(-10, 10)),
        truncated=draw(st.none() | st.just("repetition")),
        check_below=draw(st.none() | st.floats(0, 1)),
    )


@given(_pages())
def test_page_comes_back_equal_when_it_went_through_json_text(page: PageText) -> None:
    assert page_text_from_json(json.loads(json.dumps(page_text_to_json(page)))) == page


def test_json_is_storable_when_an_engine_answers_garbage() -> None:
    text = json.dumps(page_text_to_json(written(GARBAGE)), ensure_ascii=False)
    assert text.encode("utf-8")
    assert "\\u0000" not in text
    assert "<img src=x onerror=alert(1)>" in text


def test_translation_figures_and_lines_without_boxes_come_back() -> None:
    page = PageText(
        10,
        20,
        (Line("a", None, None),),
        (Block("text", (((0,),),), "**a**"),),
        "**a**",
        figures=((1, 2, 3, 4),),
        translation=Translation("en", "b\0", 2),
    )
    stored = json.loads(json.dumps(page_text_to_json(page)))
    assert page_text_from_json(stored) == replace(page, translation=Translation("en", "b\ufffd", 2))


def test_pages_read_before_there_were_translations_are_read_on() -> None:
    stored = page_text_to_json(written("Total"))
    del stored["figures"], stored["translation"]
    assert page_text_from_json(stored) == written("Total")


def test_keys_stay_those_that_users_were_promised() -> None:
    stored = page_text_to_json(written("Total 9.00"))
    assert list(stored) == [
        *("width_px", "height_px", "rotation_degrees", "skew_degrees", "confidence", "truncated"),
        *("check_below", "markdown", "text", "lines", "blocks"),
        *("figures", "translation"),
    ]
    assert stored["lines"] == [{"text": "Total 9.00", "box": [20, 20, 120, 44], "score": 0.9, "quad": None}]
    assert stored["blocks"] == [{"kind": "text", "rows": [[[0]]]}]
    assert stored["text"] == "Total 9.00"


def test_pages_are_read_when_they_were_stored_before_there_were_check_marks() -> None:
    stored = page_text_to_json(written("Total 9.00"))
    del stored["check_below"]
    assert page_text_from_json(stored).lines_to_check is None


@pytest.mark.parametrize(
    ("scores", "check_below", "expected"),
    [((0.5, 0.9, 0.97), 0.9, 1), ((0.99,), 0.9, 0), ((None, None), 0.9, None), ((0.2,), None, None), ((), 0.9, None)],
)
def test_lines_to_check_are_counted_only_where_there_are_scores(
    scores: tuple[float | None, ...], check_below: float | None, expected: int | None
) -> None:
    lines = tuple(Line("a", (0, 0, 9, 9), score) for score in scores)
    assert PageText(9, 9, lines, (), "a", check_below=check_below).lines_to_check == expected
