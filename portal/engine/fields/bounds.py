"""How much one order or template may ask for in all: fields, columns, patterns, formulas. Pure.

Each part has bounds of its own; these hold for all together, since a small request can name one costly part again and
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from portal.domain import FieldSpec
from portal.engine.fields.patterns import size_of
from portal.errors import InvalidRequest

MAX_IN_ALL: Final = 200
MAX_PATTERNS: Final = 100
# In RE2's instructions: \d+ has 5, a {1,20} of [\pL\pN] 27,000. All of them compile in some 50 ms.
MAX_PATTERN_SIZE: Final = 100_000
MAX_TERMS: Final = 1000


def check_number(in_all: int) -> None:
    """Raises InvalidRequest when fields and columns together are too many."""
    if in_all > MAX_IN_ALL:
        raise InvalidRequest(
            f"There are {in_all} fields and columns of rows, and at most {MAX_IN_ALL} are taken in all.",
            remedy="Ask for less at once: split the fields into two orders or templates.",
        )


def number_of_rows(rows: Sequence[Any]) -> int:
    """How many fields and columns rows of a template ask for, before any is read."""
    columns = (row.get("children") for row in rows if isinstance(row, dict))
    return len(rows) + sum(len(one) for one in columns if isinstance(one, list))


def check_patterns(specs: Iterable[FieldSpec]) -> None:
    """Raises InvalidRequest for a pattern that RE2 does not take, and when they are too many or too large in all."""
    patterns = [one.pattern for one in _all(specs) if one.pattern]
    if len(patterns) > MAX_PATTERNS:
        raise InvalidRequest(
            f"There are {len(patterns)} patterns, and at most {MAX_PATTERNS} are taken in all.",
            remedy="Leave out patterns: a type like 'date', 'id' or 'iban' needs none.",
        )
    left = MAX_PATTERN_SIZE
    for pattern in dict.fromkeys(patterns):  # stops at the first that is too much, so that not all are compiled
        left -= size_of(pattern)
        if left < 0:
            raise InvalidRequest(
                f"The patterns are too large in all; the one that is too much is '{pattern}'.",
                remedy="Count less: + in place of {1,40}, and \\w or [a-z] in place of \\pL where it is counted.",
            )


def check_formulas(specs: Iterable[FieldSpec]) -> None:
    """Raises InvalidRequest when the formulas have too many terms in all: each look at a job adds them up."""
    terms = sum(formula.count("+") + 1 for one in _all(specs) for formula in one.sum_of)
    if terms > MAX_TERMS:
        raise InvalidRequest(
            f"The formulas under sum_of have {terms} terms, and at most {MAX_TERMS} are taken in all.",
            remedy="Keep the ways of adding up that documents really use.",
        )


def _all(specs: Iterable[FieldSpec]) -> Iterable[FieldSpec]:
    for spec in specs:
        yield spec
        yield from spec.children
