"""What a fleet's control says, read into values: store, router, instances. What is not known is None, never 0.

The portal may be of another release than the fleet: further keys are left alone, missing ones that matter are refused.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from portal.errors import Unavailable
from portal.serving.parts import PartState


class _Seen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FleetFacts(_Seen):
    """What is the same for all instances. `is_rolling`: they are being replaced one by one."""

    served_name: str
    device: str
    transport: str
    mps: bool = False
    is_rolling: bool = False
    fitting_instances: int | None = None


class Lease(_Seen):
    """A reader of the one copy."""

    name: str
    pid: int | None = None


class StoreStatus(_Seen):
    """The holder of the one copy. `generation` counts the stores there have been; `leases` are its readers."""

    state: str
    generation: int | None = None
    sha256: str | None = None
    total_bytes: int | None = None
    leases: tuple[Lease, ...] | None = None
    last_error: str = ""


class RouterStatus(_Seen):
    """What stands in front; `workers` are the addresses of the instances it may pick."""

    state: str
    url: str
    workers: tuple[str, ...] = ()
    last_error: str = ""


class InstanceStatus(_Seen):
    """One vLLM. `ready_since` is in seconds since 1970, `cache_used` a share from 0 to 1 of its KV cache."""

    number: int
    name: str
    state: str
    url: str
    checkpoint: str | None = None
    ready_since: float | None = None
    starts: int = 0
    failures: int = 0
    last_error: str = ""
    running: int | None = None
    waiting: int | None = None
    finished_requests: int | None = None
    cache_used: float | None = None
    private_bytes: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it reads pages now."""
        return self.state == PartState.READY


class FleetStatus(_Seen):
    """All of it at one moment."""

    fleet: FleetFacts
    store: StoreStatus
    router: RouterStatus
    instances: tuple[InstanceStatus, ...]

    @property
    def ready_count(self) -> int:
        """How many instances read."""
        return sum(instance.is_ready for instance in self.instances)

    @property
    def states(self) -> dict[str, str]:
        """Instance → state, as the audit log keeps them."""
        return {instance.name: instance.state for instance in self.instances}


def read_status(answer: dict[str, Any]) -> FleetStatus:
    """The answer of `FleetControl.status`. Raises Unavailable when it is not a fleet's."""
    try:
        return FleetStatus.model_validate(answer)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise Unavailable(
            f"What answers is no fleet that this portal knows: its status lacks '{place}'.",
            remedy="Point PORTAL_FLEET_URL at a fleet's control, and run fleet and portal of the same release.",
        ) from None
