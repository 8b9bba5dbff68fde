"""The few ways to put a word or a full stop right that every floor needs. Pure."""

from __future__ import annotations

_ENDS = (".", "!", "?", "…", "。")


def counted(count: int, noun: str) -> str:
    """`1 page`, `1,200 pages`."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def as_sentence(text: str) -> str:
    """What somebody wrote, with a full stop where it has no end of its own: more words follow it."""
    text = text.strip()
    return text if not text or text.endswith(_ENDS) else f"{text}."
