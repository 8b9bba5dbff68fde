"""What a database can keep of a text: neither NUL, which Postgres takes in none, nor half of a surrogate pair."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether both databases keep the text as it is."""
    if text.isascii():
        return "\0" not in text
    return _UNSTORABLE.search(text) is None


def storable(text: str) -> str:
    """The text with U+FFFD for what cannot be kept."""
    return _UNSTORABLE.sub("\ufffd", text)
