"""A generated answer as lines with scores: what the readers of answers are given."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_FENCE_OPENS = re.compile(r"\s*```(?:markdown|md|text|html|json)?[ \t]*\n")


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line of the answer as it was generated. `score` (0–1) is None where the engine was not asked for it."""

    text: str
    score: float | None = None


def raw_lines(text: str, marks: Sequence[tuple[int, float]] = ()) -> list[RawLine]:
    """The answer's lines. `marks` are (position in the text, logarithm of the probability) of its tokens.

    A line's score is the geometric mean of its tokens' probabilities.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    sums = [0.0] * len(lines)
    counts = [0] * len(lines)
    at, end = 0, len(lines[0])
    for position, logprob in sorted(marks):
        while position > end and at < len(lines) - 1:
            at += 1
            end += 1 + len(lines[at])
        if math.isfinite(logprob):
            sums[at] += logprob
            counts[at] += 1
    scores = [math.exp(min(0.0, total / count)) if count else None for total, count in zip(sums, counts, strict=True)]
    return [RawLine(line, score) for line, score in zip(lines, scores, strict=True)]


def unfenced(text: str) -> str:
    """The text without a code fence around the whole of it, which some models put there; as it is otherwise."""
    opening = _FENCE_OPENS.match(text)
    if opening is None:
        return text
    inner = text[opening.end() :].rstrip().removesuffix("\n```")
    return text if "\n```" in inner else inner


def mean_score(lines: Sequence[RawLine]) -> float | None:
    """The mean score of the lines that have one."""
    scores = [line.score for line in lines if line.score is not None]
    return sum(scores) / len(scores) if scores else None
