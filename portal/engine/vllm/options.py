"""What the operator says of one vLLM: where it is, what it serves, how it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr

from portal.engine.profiles.base import Profile

DEFAULT_SLOTS: Final = 16
NO_BOXES: Final = "off"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where an OpenAI-compatible server is and what it is asked for. `url` ends in /v1.

    `first_token_seconds` bounds the wait for the first piece of an answer (the server's own queue is in it),
    `silence_seconds` that between two pieces.
    """

    url: str
    model: str
    api_key: SecretStr | None = None
    first_token_seconds: float = 60.0
    silence_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """One engine. `asks_scores` has it send token probabilities along (some 80 bytes a token), for confidence.

    `fallback`, `fields_with` and `boxes_with` name other engines: one that reads pages which loop, one that picks
    fields, one whose lines give values their boxes (NO_BOXES: none; None: the embedded one, where it is of use).
    """

    name: str
    server: ServerOptions
    profile: Profile
    slots: int = DEFAULT_SLOTS
    asks_scores: bool = False
    fallback: str | None = None
    fields_with: str | None = None
    boxes_with: str | None = None
