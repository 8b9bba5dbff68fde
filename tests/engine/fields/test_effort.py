"""A page's fields keep a thread no longer than they may: counted in looks at a clock that ticks at each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from portal.domain import FieldSpec, FieldType
from portal.engine.fields import answers, patterns, sheet
from portal.engine.fields.effort import FIELDS_TOO_COSTLY, Effort
from portal.engine.fields.matcher import from_page
from portal.errors import EngineError
from portal.page_text import Line, PageText

# Linear for one match, but each letter of the line begins one that looks at all that follows.
COSTLY = "[a-h]([a-h]{0,400}.{0,400}zq)?"
LINES = tuple(Line("abcdefgh" * 118, (10, 40 * at, 900, 40 * at + 24), 0.9) for at in range(8))
PAGE = PageText(1000, 1400, LINES, (), "\n".join(line.text for line in LINES))
SPECS = tuple(FieldSpec(f"sought {at}", FieldType.TEXT, pattern=COSTLY) for at in range(30))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many matches each call of `patterns.spans` gave."""
    made: list[int] = []
    real: Callable[..., Any] = patterns.spans

    def counted(pattern: str, text: str) -> Any:
        found = real(pattern, text)
        made.append(len(found))
        return found

    monkeypatch.setattr(patterns, "spans", counted)
    return made


def _ticking(seconds: float) -> Callable[[], Effort]:
    ticks = count()
    return lambda: Effort(seconds, clock=lambda: float(next(ticks)))


def test_matches_of_a_line_are_counted(calls: list[int]) -> None:
    from_page(PAGE, SPECS[:1])
    assert (len(calls), set(calls)) == (len(LINES), {50})


def test_the_page_ends_between_two_lines_when_its_fields_take_too_long(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheet, "Effort", _ticking(30))
    with pytest.raises(EngineError) as failure:
        from_page(PAGE, SPECS)
    assert (failure.value.code, failure.value.is_permanent) == (FIELDS_TOO_COSTLY, True)
    assert 0 < len(calls) < 30


def test_the_page_ends_when_an_answers_values_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "Effort", _ticking(20))
    fields = tuple(FieldSpec(f"sought {at}") for at in range(30))
    said = "{" + ",".join(f'"sought {at}": "x{at}"' for at in range(30)) + "}"
    with pytest.raises(EngineError) as failure:
        answers.from_answer(said, PAGE, fields)
    assert failure.value.code == FIELDS_TOO_COSTLY


def test_a_long_line_is_looked_at_to_its_bound() -> None:
    assert patterns.spans("z", "a" * 5000 + "z") == []
    assert not patterns.fits("a+", "a" * 2001)
