"""What /v1/admin/fleet takes and answers: the fleet's parts as its control tells them, the engines, the queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from portal.api.body import Body
from portal.fleet.machines import EngineSight
from portal.fleet.watch import FleetSight, FleetWatch
from portal.serving.fleet_status import FleetStatus, InstanceStatus
from portal.tenancy.overview import Queue


class DrainOrder(BaseModel):
    """The instance that is to finish what it reads, and stop."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance: int = Field(ge=0, le=9999, examples=[1])


class RestartOrder(BaseModel):
    """The instance that is to be replaced; left out, all are, one by one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instance: int | None = Field(default=None, ge=0, le=9999, examples=[1])


class FleetTroubleBody(Body):
    """Why nothing is known of the fleet."""

    code: str
    detail: str
    remedy: str


class FleetStoreBody(Body):
    """The one copy of the weights and who reads it."""

    state: str
    transport: str
    total_bytes: int | None
    generation: int | None = Field(description="How many stores there have been")
    readers: list[str] | None
    last_error: str


class FleetRouterBody(Body):
    """The router in front of the instances."""

    state: str
    url: str
    workers: list[str]
    last_error: str


class FleetInstanceBody(Body):
    """One vLLM. What is not known is null, never 0."""

    number: int
    name: str
    state: str = Field(description="waiting, starting, ready, draining, backoff, failed or stopped")
    url: str
    ready_since: datetime | None
    starts: int
    failures: int
    last_error: str
    running: int | None
    waiting: int | None
    answers_a_minute: float | None
    cache_used: float | None = Field(description="Share of its KV cache, from 0 to 1")
    private_bytes: int | None = Field(description="Host memory of its own")


class WorkerBody(Body):
    """One vLLM behind a router."""

    address: str
    is_healthy: bool
    load: int | None


class MachineEngineBody(Body):
    """An engine: whether it answers, and the workers of a router in front of it."""

    name: str
    checkpoint: str
    is_remote: bool
    slots: int
    trouble: str | None
    workers: list[WorkerBody] | None


class QueueBody(Body):
    """All tenants' pages now."""

    queued_pages: int
    running_pages: int
    oldest_seconds: float | None


class FleetBody(Body):
    """The machines that read. Without PORTAL_FLEET_URL the fleet's parts are null."""

    object: Literal["fleet"] = "fleet"
    is_configured: bool
    address: str | None
    trouble: FleetTroubleBody | None
    served_name: str | None
    device: str | None
    is_rolling: bool | None = Field(description="Instances are being replaced one by one")
    store: FleetStoreBody | None
    router: FleetRouterBody | None
    instances: list[FleetInstanceBody] | None
    engines: list[MachineEngineBody]
    queue: QueueBody


def fleet_body(
    fleet: FleetWatch | None, sight: FleetSight | None, engines: tuple[EngineSight, ...], queue: Queue
) -> FleetBody:
    """All of it; `sight` is None where there is no fleet."""
    status = sight.status if sight is not None else None
    trouble = sight.trouble if sight is not None else None
    return FleetBody(
        is_configured=fleet is not None,
        address=fleet.address if fleet is not None else None,
        trouble=trouble and FleetTroubleBody(code=trouble.code, detail=trouble.message, remedy=trouble.remedy),
        served_name=status and status.fleet.served_name,
        device=status and status.fleet.device,
        is_rolling=status and status.fleet.is_rolling,
        store=status and _store(status),
        router=status and FleetRouterBody.model_validate({**status.router.model_dump()}),
        instances=[_instance(each, sight) for each in status.instances] if status and sight else None,
        engines=[_engine(each) for each in engines],
        queue=QueueBody.model_validate(queue),
    )


def _store(status: FleetStatus) -> FleetStoreBody:
    store = status.store
    return FleetStoreBody(
        state=store.state,
        transport=status.fleet.transport,
        total_bytes=store.total_bytes,
        generation=store.generation,
        readers=None if store.leases is None else [lease.name for lease in store.leases],
        last_error=store.last_error,
    )


def _instance(instance: InstanceStatus, sight: FleetSight) -> FleetInstanceBody:
    since = instance.ready_since
    return FleetInstanceBody(
        ready_since=None if since is None else datetime.fromtimestamp(since, UTC),
        answers_a_minute=sight.answers_a_minute.get(instance.number),
        **instance.model_dump(exclude={"ready_since", "checkpoint", "finished_requests"}),
    )


def _engine(engine: EngineSight) -> MachineEngineBody:
    own = engine.capability
    return MachineEngineBody(
        name=own.name,
        checkpoint=own.checkpoint,
        is_remote=own.is_remote,
        slots=engine.slots,
        trouble=engine.trouble,
        workers=None if engine.workers is None else [WorkerBody.model_validate(each) for each in engine.workers],
    )
