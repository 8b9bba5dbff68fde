"""Page selections are read as people write them, from 0 or from 1, and never past what a document may have."""

from __future__ import annotations

import time

import pytest

from portal.jobs.page_numbers import (
    MAX_TEXT_LENGTH,
    check_page_numbers,
    parse_page_numbers,
    written_page_numbers,
)


@pytest.mark.parametrize(
    ("text", "first", "numbers"),
    [
        ("1", 1, (1,)),
        ("1-3,7", 1, (1, 2, 3, 7)),
        (" 7 , 2 - 3, 2", 1, (2, 3, 7)),
        ("0", 0, (1,)),
        ("0,2-4", 0, (1, 3, 4, 5)),
        ("19", 0, (20,)),
    ],
)
def test_numbers_are_sorted_and_counted_from_one(text: str, first: int, numbers: tuple[int, ...]) -> None:
    assert parse_page_numbers(text, first=first, limit=20) == numbers


@pytest.mark.parametrize(
    ("text", "first"),
    [("", 1), ("a", 1), ("1,", 1), ("-1", 0), ("1-", 1), ("3-1", 1), ("0", 1), ("20", 0), ("21", 1), ("1-9999999", 1)],
)
def test_selection_is_refused_when_it_names_no_possible_page(text: str, first: int) -> None:
    with pytest.raises(ValueError, match=r"page|range|list"):
        parse_page_numbers(text, first=first, limit=20)


def test_list_is_counted_like_text() -> None:
    assert check_page_numbers([2, 0, 2], first=0, limit=20) == (1, 3)


@pytest.mark.parametrize("given", [[], [-1], [20]])
def test_list_is_refused_when_it_names_no_possible_page(given: list[int]) -> None:
    with pytest.raises(ValueError, match="page"):
        check_page_numbers(given, first=0, limit=20)


@pytest.mark.parametrize(
    ("numbers", "text"), [((1,), "1"), ((7, 2, 3, 1, 3), "1-3,7"), ((1, 2, 5, 6, 9), "1-2,5-6,9"), ((), "")]
)
def test_numbers_are_written_as_they_are_read(numbers: tuple[int, ...], text: str) -> None:
    assert written_page_numbers(numbers) == text
    assert not numbers or parse_page_numbers(text, first=1, limit=20) == tuple(sorted(set(numbers)))


def test_text_is_refused_when_it_is_longer_than_any_choice_needs() -> None:
    with pytest.raises(ValueError, match="more than 10000 characters"):
        parse_page_numbers("0-999," * 41_000, first=0, limit=1000)


def test_same_pages_cost_nothing_when_they_are_named_again_and_again() -> None:
    text = ",".join(["0-999"] * (MAX_TEXT_LENGTH // 6))
    started = time.process_time()
    assert parse_page_numbers(text, first=0, limit=1000) == tuple(range(1, 1001))
    assert time.process_time() - started < 0.05
