"""Server-sent events of a chat completion, cut out of a stream of bytes and told apart; none is changed.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html, as vLLM writes it: one `data:` line an event.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_END = re.compile(rb"\r?\n\r?\n")
_MAX_EVENT_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Event:
    """One event with the empty line behind it."""

    raw: bytes

    @property
    def data(self) -> bytes:
        """What it carries; empty for a comment."""
        line = self.raw.strip()
        return line[5:].strip() if line.startswith(b"data:") else b""

    @property
    def is_end(self) -> bool:
        """True for the mark of a whole answer."""
        return self.data == b"[DONE]"

    @property
    def is_error(self) -> bool:
        """True where the server says that it failed. Raises ValueError when it is not JSON."""
        return b'"error"' in self.raw and "error" in self.value()

    @property
    def has_text(self) -> bool:
        """True when there is text of the answer in it, as `has_text`. Raises ValueError when it is not JSON."""
        return bool(self.data) and not self.is_end and has_text(self.value(), "delta")

    def value(self) -> dict[str, Any]:
        """The JSON object. Raises ValueError."""
        found = json.loads(self.data or b"{}")
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found


class EventStream:
    """Feed it bytes as they come; it gives the events that are whole by then."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Event]:
        """The events that the piece completes. Raises ValueError when one has no end."""
        *whole, self._rest = _cut(self._rest + piece)
        if len(self._rest) > _MAX_EVENT_BYTES:
            raise ValueError("an event without an end")
        return [Event(raw) for raw in whole]


def has_text(value: dict[str, Any], part: str) -> bool:
    """Whether the first choice of a completion has text in its `message` or `delta`; white space alone is none."""
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    said = choice.get(part) if isinstance(choice, dict) else None
    text = said.get("content") if isinstance(said, dict) else None
    return isinstance(text, str) and bool(text.strip())


def _cut(text: bytes) -> list[bytes]:
    parts, start = [], 0
    for end in _END.finditer(text):
        parts.append(text[start : end.end()])
        start = end.end()
    return [*parts, text[start:]]
