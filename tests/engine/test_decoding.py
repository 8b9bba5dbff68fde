"""What is made of the recogniser's probabilities: text, dropped spaces, look-alikes, doubtful accents."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from portal.engine.decoding import Alphabet, Probabilities, decoded, spaced

_CHARACTERS = ["", *"abclmnIEÉが", " "]
_ALPHABET = Alphabet(_CHARACTERS)


def _columns(*columns: dict[str, float]) -> Probabilities:
    """One column for each dict; what it leaves over is CTC's blank."""
    probabilities = np.zeros((len(columns), len(_CHARACTERS)), np.float32)
    for row, column in zip(probabilities, columns, strict=True):
        for character, chance in column.items():
            row[_CHARACTERS.index(character)] = chance
        row[0] = 1 - row[1:].sum()
    return probabilities


def _letters(text: str) -> list[dict[str, float]]:
    return [{letter: 1.0} for letter in text]


def test_repeated_columns_are_one_letter_and_blanks_part_equal_ones() -> None:
    reading = decoded(_columns({"a": 0.9}, {"a": 0.8}, {}, {"a": 0.7}, {}, {"b": 0.8}), _ALPHABET)
    assert reading.text == "aab"
    assert reading.score == pytest.approx(0.8)


def test_line_is_empty_when_every_column_is_blank() -> None:
    assert decoded(_columns({}, {"a": 0.3}), _ALPHABET) == ("", 0.0, False)


@pytest.mark.parametrize(("chance", "text"), [(0.12, "a b"), (0.05, "ab")])
def test_space_is_put_back_when_the_recogniser_thought_of_one(chance: float, text: str) -> None:
    assert decoded(_columns({"a": 1.0}, {" ": chance}, {}, {"b": 1.0}), _ALPHABET).text == text


def test_space_stays_single_when_it_was_read() -> None:
    assert decoded(_columns({"a": 1.0}, {" ": 0.4}, {" ": 0.8}, {" ": 0.3}, {"b": 1.0}), _ALPHABET).text == "a b"


@pytest.mark.parametrize(
    "text", ["Tel.: 05251", "€ 189,00", "shall mean", "Normal -", "No. 17", "a, b", "12 345", "Straße 7", "M. Été"]
)
def test_dropped_space_is_put_back_when_it_is_likely(text: str) -> None:
    at = text.index(" ")
    letters = text.replace(" ", "")
    gaps = [0.3 if place == at - 1 else 0.0 for place in range(len(letters) - 1)]
    assert spaced(letters, gaps) == text


@pytest.mark.parametrize("text", ["1.234,56", "12:30", "3'360.00", "a-b", "8:15-17:00", "github.io", "名称编号"])
def test_no_space_is_put_when_the_mark_stands_inside_a_number_or_word(text: str) -> None:
    is_inside = [left.isalnum() and right.isalnum() and text.isascii() for left, right in pairwise(text)]
    around_marks = [0.0 if inside else 0.3 for inside in is_inside]
    assert spaced(text, around_marks) == text


def test_no_space_is_put_beside_a_chinese_character_but_between_latin_words() -> None:
    assert spaced("号(NO1", [0.5, 0.0, 0.0, 0.5]) == "号(NO 1"


@pytest.mark.parametrize(("capital", "small", "text"), [(0.6, 0.3, "mcl"), (0.95, 0.04, "mcI"), (0.6, 0.05, "mcI")])
def test_capital_i_is_an_l_when_it_is_unsure_after_a_small_letter(capital: float, small: float, text: str) -> None:
    columns = _columns(*_letters("mc"), {"I": capital, "l": small})
    assert decoded(columns, _ALPHABET).text == text


def test_capital_i_stays_when_no_small_letter_stands_before_it() -> None:
    assert decoded(_columns({"I": 0.6, "l": 0.3}, *_letters("a")), _ALPHABET).text == "Ia"


@pytest.mark.parametrize(
    ("letter", "chance", "is_doubtful"), [("É", 0.65, True), ("É", 0.95, False), ("E", 0.6, False), ("が", 0.6, False)]
)
def test_accent_is_doubtful_when_its_letter_is_unsure(letter: str, chance: float, is_doubtful: bool) -> None:
    assert decoded(_columns({letter: chance}), _ALPHABET).has_doubtful_accent == is_doubtful


def test_grave_between_digits_is_the_mark_of_thousands() -> None:
    characters = ["", *"0123456789`", " "]
    text = "3`360"
    probabilities = np.zeros((len(text), len(characters)), np.float32)
    probabilities[np.arange(len(text)), [characters.index(letter) for letter in text]] = 1
    assert decoded(probabilities, Alphabet(characters)).text == "3'360"
