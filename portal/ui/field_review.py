"""What the review of fields asks for: a correction or a check of one value, as the viewer sends it."""

from __future__ import annotations

import json
import secrets
from typing import Any

from portal.domain import Principal
from portal.errors import InvalidRequest
from portal.jobs import fields
from portal.jobs.context import JobContext
from portal.jobs.fields import Correction

_MOST_TARGET = 10_000


def correct(context: JobContext, principal: Principal, job_id: str, target: object) -> None:
    """Stores the value of {"position", "path", "value"}. Raises what jobs.fields.correct raises."""
    asked = _asked(target)
    position, path, value = asked.get("position"), asked.get("path"), asked.get("value")
    is_whole = isinstance(position, int) and isinstance(path, str) and isinstance(value, str | None)
    if not is_whole or not 1 <= int(str(position)) < 2**31:
        raise InvalidRequest("That value cannot be corrected.", remedy="Reload the page.")
    fields.correct(context, principal, job_id, [Correction(int(str(position)), str(path), value)])


def told(target: object, problem: str | None) -> dict[str, Any]:
    """What the viewer hears: which value, the refusal or None, and a mark so that no two are alike."""
    try:
        asked = _asked(target)
    except InvalidRequest:
        asked = {}
    return {
        "mark": secrets.token_hex(4),
        "position": asked.get("position"),
        "path": asked.get("path"),
        "problem": problem,
    }


def _asked(target: object) -> dict[str, Any]:
    try:
        asked = json.loads(str(target)[:_MOST_TARGET])
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise InvalidRequest("That value cannot be corrected.", remedy="Reload the page.")
    return asked
