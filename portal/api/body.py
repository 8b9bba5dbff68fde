"""What every answer's body has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """Built once, from keywords or from the attributes of what a service gave."""

    model_config = ConfigDict(frozen=True, from_attributes=True)
