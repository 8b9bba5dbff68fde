"""What a limit may be set to, how it is written down by people, and how it is shown to them."""

from __future__ import annotations

from math import isfinite
from typing import Final, Literal

from portal.domain import Limit
from portal.errors import InvalidRequest

FOLLOW_PLAN: Final = "plan"
NO_LIMIT: Final = "none"
LimitChoice = float | None | Literal["plan"]

MIN_WEIGHT, MAX_WEIGHT = 0.01, 100  # as wide as turns can be shared out without loss (portal/jobs/fairness.py)
WEIGHTS = f"a number from {MIN_WEIGHT} to {MAX_WEIGHT}"
_MAX_WHOLE = 2**31 - 1  # what an INTEGER column of Postgres holds
_MAX_BYTES = 2**50
_MAX_DAYS = 36_500  # a hundred years: no date that is reckoned from it leaves the calendar
_AT_LEAST_ONE = frozenset({Limit.MAX_FILE_BYTES, Limit.MAX_DOCUMENT_PAGES, Limit.RETENTION_DAYS})

LABELS: dict[Limit, str] = {
    Limit.PAGES_PER_DAY: "pages a day",
    Limit.PAGES_PER_MONTH: "pages a month",
    Limit.REQUESTS_PER_MINUTE: "requests a minute",
    Limit.PAGES_IN_FLIGHT: "pages in flight",
    Limit.UNCHARGED_PAGES_PER_DAY: "uncharged pages a day",
    Limit.MAX_FILE_BYTES: "bytes a file",
    Limit.MAX_DOCUMENT_PAGES: "pages a document",
    Limit.RETENTION_DAYS: "retention days",
    Limit.WEIGHT: "weight",
}


def parsed(limit: Limit, text: str) -> LimitChoice:
    """What a person wrote: a number, `none` (no limit) or `plan` (the plan's again).

    Raises InvalidRequest (limit_invalid).
    """
    written = text.strip().lower()
    if written == FOLLOW_PLAN:
        return FOLLOW_PLAN
    if written == NO_LIMIT:
        return checked(limit, None)
    try:
        number = float(written) if limit is Limit.WEIGHT else int(written)
    except ValueError:
        raise _invalid(limit, written[:40]) from None
    return checked(limit, number)


def checked(limit: Limit, value: object) -> float | None:
    """The value itself when the limit may have it; None is no limit. Raises InvalidRequest (limit_invalid)."""
    if value is None and limit is not Limit.WEIGHT:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(limit, value)
    if limit is Limit.WEIGHT:
        if not isfinite(value) or not MIN_WEIGHT <= value <= MAX_WEIGHT:
            raise _invalid(limit, value)
        return float(value)
    lowest, highest = _bounds(limit)
    if not isfinite(value) or value != int(value) or not lowest <= value <= highest:
        raise _invalid(limit, value)
    return int(value)


def shown(limit: Limit, value: float | None) -> str:
    """The value with its unit: "300 pages a day", "no limit on pages a day", "weight 2"."""
    if value is None:
        return f"no limit on {LABELS[limit]}"
    if limit is Limit.WEIGHT:
        return f"weight {value:g}"
    return f"{int(value):,} {LABELS[limit]}"


def number_shown(value: float | None) -> str:
    """The value alone: "300", "0.5", "no limit"."""
    if value is None:
        return "no limit"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def _bounds(limit: Limit) -> tuple[int, int]:
    highest = {Limit.MAX_FILE_BYTES: _MAX_BYTES, Limit.RETENTION_DAYS: _MAX_DAYS}.get(limit, _MAX_WHOLE)
    return (1 if limit in _AT_LEAST_ONE else 0), highest


def _invalid(limit: Limit, value: object) -> InvalidRequest:
    if limit is Limit.WEIGHT:
        kind = WEIGHTS
    else:
        lowest, highest = _bounds(limit)
        kind = f"a whole number from {lowest} to {highest}, or none for no limit"
    return InvalidRequest(
        f"{limit.value} ({LABELS[limit]}) cannot be {str(value)[:40]!r}.",
        code="limit_invalid",
        remedy=f"Give {kind}.",
    )
