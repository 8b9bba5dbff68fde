"""An amount that proves itself: net, tax and total add up, so two that labels tell show the third on the page. Pure.

Never computed: the amount must stand on the page. That is how one label for two things is told apart, such as 合计金额,
the total of most Chinese receipts and the net sum beside a 价税合计.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

PARTS: Final = frozenset({"net", "tax", "total"})
_FEWEST_DIGITS: Final = 3


def third(sought: str, others: Mapping[str, Decimal]) -> Decimal | None:
    """What `sought` of PARTS must be by the other two; None where they say nothing: one lacks, or is naught."""
    if set(others) != PARTS - {sought} or any(amount <= 0 for amount in others.values()):
        return None
    if sought == "total":
        amount = others["net"] + others["tax"]
    else:
        amount = others["total"] - others["net" if sought == "tax" else "tax"]
    # Small round numbers add up by chance.
    is_telling = amount > 0 and len(amount.as_tuple().digits) >= _FEWEST_DIGITS and amount not in others.values()
    return amount if is_telling else None
