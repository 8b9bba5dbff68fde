"""The server-rendered pages, the guard around Gradio and the headers of all answers."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request

from portal.services import Services
from portal.web import account, sign_in, sign_up

__all__ = ["router"]


def router(services: Services) -> APIRouter:
    """The routes of /login, /logout, /signup and /account; `pages.install` translates what they raise."""

    async def provide(request: Request) -> None:
        request.state.services = services

    routes = APIRouter(dependencies=[Depends(provide)], include_in_schema=False)
    for part in (sign_in, sign_up, account):
        routes.include_router(part.routes)
    return routes
