"""The errors of this package: what went wrong, on which side, and what to do."""

from __future__ import annotations


class SharedWeightsError(Exception):
    """Weights cannot be shared as asked. Nobody falls back to a second copy.

    `message` says what happened and names both sides where two disagree; `remedy` what to do next.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.message = message
        self.remedy = remedy


class DamagedWeights(SharedWeightsError):
    """The store was looked at, and its tensors are not what was loaded."""
