from __future__ import annotations

import pytest

from portal.errors import InvalidRequest
from portal.ui import page_range


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), (" , ", None), ("7", (7,)), ("1-3, 7", (1, 2, 3, 7)), ("5; 2 – 3, 2", (2, 3, 5))],
)
def test_numbers_are_sorted_without_repeats_when_a_range_is_given(text: str, expected: tuple[int, ...] | None) -> None:
    assert page_range.parse(text, max_pages=1000) == expected


@pytest.mark.parametrize("text", ["x", "0", "3-1", "1-", "-2", "1-999999", "1.5", "2-3-4"])
def test_remedy_shows_how_when_it_is_no_range(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        page_range.parse(f"1, {text}", max_pages=1000)
    assert "1-3, 7" in refused.value.remedy
