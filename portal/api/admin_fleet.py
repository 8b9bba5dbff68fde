"""/v1/admin/fleet: the machines that read, and what an admin orders them; for an admin's own key."""

from __future__ import annotations

from fastapi import APIRouter

from portal.api import contract
from portal.api import fleet_schemas as bodies
from portal.api.access import Admin
from portal.api.problems import ProblemRoute
from portal.fleet import orders
from portal.fleet.watch import FleetSight
from portal.http.given import PortalServices
from portal.services import Services
from portal.tenancy.overview import queue_now

routes = APIRouter(prefix="/v1/admin", tags=["Admin"], route_class=ProblemRoute)

_FIRST_LOOK_SECONDS = 2.0
_ORDER_ERRORS = (
    *("malformed_body", "fleet_not_configured", "instance_unknown", "fleet_conflict", "fleet_unavailable"),
    "unavailable",
)


@routes.get("/fleet", summary="Show the machines that read", responses=contract.administering())
def show_fleet(services: PortalServices, admin: Admin) -> bodies.FleetBody:
    """Store, router and instances of the fleet (PORTAL_FLEET_URL), the engines with their routers' workers, the queue.

    A fleet that does not answer within three seconds is told in `trouble`.
    """
    fleet = services.machines.fleet
    return _body(services, fleet.sight() if fleet is not None else None)


@routes.post("/fleet/drain", summary="Take an instance out", responses=contract.administering(*_ORDER_ERRORS))
def drain_instance(services: PortalServices, admin: Admin, order: bodies.DrainOrder) -> bodies.FleetBody:
    """It takes no new page, finishes what it reads, and stops; restart brings it back. It is in the audit log.

    The only one that reads is not drained.
    """
    return _body(services, orders.drain(services.database, services.machines.fleet, admin, order.instance))


@routes.post("/fleet/restart", summary="Replace instances", responses=contract.administering(*_ORDER_ERRORS))
def restart_instances(services: PortalServices, admin: Admin, order: bodies.RestartOrder) -> bodies.FleetBody:
    """One, or all one by one, each ready again before the next goes: with two or more no request is lost.

    Answers at once; the state shows how it goes. It is in the audit log.
    """
    return _body(services, orders.restart(services.database, services.machines.fleet, admin, order.instance))


def _body(services: Services, sight: FleetSight | None) -> bodies.FleetBody:
    with services.database.reading() as session:
        queue = queue_now(session)
    engines = services.machines.engines(wait_seconds=_FIRST_LOOK_SECONDS)
    return bodies.fleet_body(services.machines.fleet, sight, engines, queue)
