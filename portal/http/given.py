"""How a route is given the running portal's parts: `giving` on the router, `PortalServices` on the route."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request

from portal.services import Services


def giving(services: Services) -> Any:
    """A dependency for a router, which puts `services` on each of its requests."""

    async def give(request: Request) -> None:
        request.state.services = services

    return Depends(give)


async def given_services(request: Request) -> Services:
    """The running portal's parts, as `giving` put them on the request."""
    return cast(Services, request.state.services)


PortalServices = Annotated[Services, Depends(given_services)]
