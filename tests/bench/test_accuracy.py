"""The figures of the accuracy benchmark mean what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.accuracy import accents_kept, character_error_rate, main, word_recall


def test_recall_counts_each_word_as_often_as_it_stands_there() -> None:
    assert word_recall("Total total EUR 9.00", "total: 9.00") == 0.5
    assert word_recall("a b", "b a") == 1.0


def test_recall_counts_character_pairs_when_the_text_is_chinese() -> None:
    assert word_recall("工商银行", "工 商银x行") == pytest.approx(2 / 3)


def test_error_rate_counts_edits_without_white_space() -> None:
    assert character_error_rate("kitten", "s itt in g") == 0.5
    assert character_error_rate("a b\nc", "ab c") == 0.0
    assert character_error_rate("abc", "") == 1.0


@given(st.text("ab ", max_size=12), st.text("ab ", max_size=12))
def test_error_rate_is_that_of_the_plain_recursion(first: str, second: str) -> None:
    wanted, found = "".join(first.split()), "".join(second.split())
    assert character_error_rate(first, second) == _distance(wanted, found) / max(1, len(wanted))


def test_accents_are_counted_once_each() -> None:
    assert accents_kept("Größe é é", "Grösse é") == (2, 4)


def test_benchmark_says_so_when_there_are_no_scans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scans", str(tmp_path)]) == 1
    assert "No scans" in capsys.readouterr().out


def _distance(first: str, second: str) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        last, row[0] = row[0], i
        for j, b in enumerate(second, start=1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]
