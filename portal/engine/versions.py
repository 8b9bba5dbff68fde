"""What decides how pages are read, in a few letters: readings are taken over only where it is the same."""

from __future__ import annotations

import hashlib
import json

from portal.domain import EngineCapability


def version(name: str, *decides: object) -> str:
    """`name` and eight hex digits of all that decides (JSON values, capabilities by what tells their readings)."""
    said = json.dumps(decides, default=_said)
    return f"{name}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"


def _said(other: object) -> list[str]:
    if not isinstance(other, EngineCapability):
        raise TypeError(f"{type(other).__name__} says nothing of how pages are read")
    return [other.name, other.checkpoint, other.profile_version]
