"""The server-rendered pages, the guard around Gradio and the headers of all answers."""

from __future__ import annotations

from fastapi import APIRouter

from portal.http.given import giving
from portal.services import Services
from portal.web import account, invite, members, sign_in, sign_up

__all__ = ["router"]


def router(services: Services) -> APIRouter:
    """The routes of sign-in, sign-up, invites, account and members; `pages.install` translates what they raise."""
    routes = APIRouter(dependencies=[giving(services)], include_in_schema=False)
    for part in (sign_in, sign_up, invite, account, members):
        routes.include_router(part.routes)
    return routes
