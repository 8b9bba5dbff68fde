"""The few HTML pieces shared by the pages.

`Markup(…).format(…)` escapes what it is given, so names and text from outside are safe by default; nothing else in
portal/ui builds HTML.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from markupsafe import Markup

from portal.ui import words

Tone = Literal["error", "warning", "plain"]


def joined(parts: Iterable[Markup]) -> Markup:
    """The parts one after another."""
    return Markup("").join(parts)


def moment(at: datetime, now: datetime) -> Markup:
    """A time in words, with the exact one on hover and for machines."""
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), f"{at:%Y-%m-%d %H:%M} UTC", words.ago(at, now)
    )


def badge(state: str, label: str) -> Markup:
    """A state as a coloured pill; the colour repeats the word, it never stands alone."""
    return Markup('<span class="badge" data-state="{}">{}</span>').format(state, label)


def notice(title: str, text: str, *, tone: Tone = "error") -> Markup:
    """A message that stays until the next action; read out at once when it is an error."""
    return Markup('<div class="notice" data-tone="{}" role="{}"><strong>{}</strong><p>{}</p></div>').format(
        tone, "status" if tone == "plain" else "alert", title, text
    )


def empty(title: str, text: str) -> Markup:
    """What a list shows before it has anything."""
    return Markup('<div class="empty"><strong>{}</strong><p>{}</p></div>').format(title, text)


def copy_button(target_id: str, label: str) -> Markup:
    """A button that static/ui.js makes copy the text of the element with that id."""
    return Markup('<button type="button" class="quiet" data-copy="{}">{}</button>').format(target_id, label)
