"""One profile for each checkpoint family, and which of them a model name belongs to."""

from __future__ import annotations

from typing import Final

from portal.engine.profiles.base import Profile
from portal.engine.profiles.generic import GENERIC
from portal.engine.profiles.hunyuan import HUNYUAN_1_0, HUNYUAN_1_5
from portal.engine.profiles.lighton import LIGHTON

PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile for profile in (LIGHTON, HUNYUAN_1_0, HUNYUAN_1_5, GENERIC)
}


def profile_for(model: str) -> Profile:
    """The profile of a model by its name (`lightonai/LightOnOCR-2-1B-bbox`), GENERIC where none claims it.

    A path of a folder counts too, so a checkpoint served from disk is known by its folder's name.
    """
    asked = model.lower()
    claims = ((part, profile) for profile in PROFILES.values() for part in profile.checkpoints)
    found = [(len(part), profile) for part, profile in claims if part in asked]
    return max(found, key=lambda claim: claim[0])[1] if found else GENERIC
