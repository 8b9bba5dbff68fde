"""Who calls: the Bearer key of a request becomes a Principal, and its scopes decide.

Cookies count for nothing here, so a page of another origin can make no browser call /v1 on its user's behalf.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from portal.accounts import key_proof
from portal.domain import Principal, Scope
from portal.errors import Forbidden, Unauthenticated
from portal.http.given import PortalServices

_OTHER_KEY_HEADERS = ("X-API-Key", "Api-Key")
_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="API key",
    description="An API key of your tenant, from the Keys page: `Authorization: Bearer ocr_…`.",
)


def authenticated(
    request: Request,
    services: PortalServices,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    """The key's principal. Raises Unauthenticated for no key, an unknown, an expired or a revoked one.

    Raises TenantSuspended for a suspended tenant's.
    """
    if credentials is None:
        raise _no_key(request)
    address = request.client.host if request.client else None
    return key_proof.authenticate(services.database, services.peppers, credentials.credentials, address=address)


def _no_key(request: Request) -> Unauthenticated:
    """Says where the key must stand, and what was found instead; nothing of its value is repeated."""
    scheme = request.headers.get("Authorization", "").partition(" ")[0].lower()
    elsewhere = next((name for name in _OTHER_KEY_HEADERS if name in request.headers), None)
    if scheme == "basic":
        message = "The key was sent as 'Authorization: Basic'."
    elif scheme and scheme != "bearer":
        message = "The header Authorization does not begin with 'Bearer'."
    elif elsewhere:
        message = f"The header {elsewhere} is not looked at."
    else:
        message = "No API key was sent."
    return Unauthenticated(message, remedy="Send a key of the Keys page as 'Authorization: Bearer ocr_…'.")


AnyKey = Annotated[Principal, Depends(authenticated)]


def _with_scope(scope: Scope) -> Callable[[Principal], Awaitable[Principal]]:
    async def check(principal: AnyKey) -> Principal:
        if scope not in principal.scopes:
            raise Forbidden(
                f"This key lacks the scope '{scope}'.",
                code="scope_lacking",
                remedy=f"Use a key with the scope '{scope}'; the Keys page makes one.",
            )
        return principal

    return check


Submitter = Annotated[Principal, Depends(_with_scope(Scope.OCR))]
Chatter = Annotated[Principal, Depends(_with_scope(Scope.CHAT))]
MemberManager = Annotated[Principal, Depends(_with_scope(Scope.MEMBERS))]
Reader = Annotated[Principal, Depends(_with_scope(Scope.READ))]


async def _admin(principal: Annotated[Principal, Depends(_with_scope(Scope.ADMIN))]) -> Principal:
    if not principal.is_admin:
        raise Forbidden(
            "Who made this key is no admin of the portal.", code="admin_only", remedy="Ask one of its admins."
        )
    return principal


Admin = Annotated[Principal, Depends(_admin)]
