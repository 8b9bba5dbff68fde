"""/v1/me and /v1/keys: who a key is, and its tenant's keys.

A key gives no more than it has: neither scopes nor a longer life, so revoking it and what it made ends it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Response, status
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from portal.accounts import api_keys
from portal.accounts.api_keys import ApiKeyView
from portal.accounts.rotation import Overlap, rotate
from portal.api import contract
from portal.api.access import AnyKey, Reader
from portal.api.jobs import MAX_WAIT_SECONDS
from portal.api.key_schemas import (
    CreatedKeyBody,
    KeyBody,
    KeyList,
    LimitsBody,
    MeBody,
    MemberBody,
    TenantBody,
    created_key_body,
    key_body,
)
from portal.api.multipart_form import body_limit_bytes
from portal.api.problems import ProblemRoute
from portal.api.usage_schemas import standing_bodies
from portal.domain import Principal, Role, Scope
from portal.errors import Forbidden
from portal.http.given import PortalServices
from portal.http.ids import KeyId
from portal.jobs.submission import intake_of
from portal.services import Services
from portal.settings import IntakeSettings
from portal.usage.limits import Terms
from portal.usage.standing import standing_of

_KEY_ERRORS = ("invalid_request", "keys_not_allowed")
_ORDER_ERRORS = (
    *("malformed_body", "api_key_name", "scope_missing", "scope_not_allowed"),
    *("expiry_invalid", "expiry_not_allowed"),
)

me_routes = APIRouter(prefix="/v1/me", tags=["Account"], route_class=ProblemRoute)
routes = APIRouter(prefix="/v1/keys", tags=["Account"], route_class=ProblemRoute)


class KeyOrder(BaseModel):
    """A key that is to be made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(max_length=100, description="What will use the key", examples=["nightly import"])
    scopes: list[Scope] = Field(
        default=[Scope.OCR, Scope.READ], description="A part of the scopes of the key that asks"
    )
    expires_at: datetime | None = Field(
        default=None, description="With its time zone; no later than the key that asks, which is also the default"
    )


class RotationOrder(BaseModel):
    """How a key is to be replaced."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    overlap: Overlap = Field(default=Overlap.DAY, description="How long the old key stays valid")


async def _managing(principal: AnyKey) -> Principal:
    may_write = not principal.scopes.isdisjoint({Scope.OCR, Scope.ADMIN})
    if principal.role is not Role.OWNER or not may_write:
        raise Forbidden(
            "This key may not manage keys.",
            code="keys_not_allowed",
            remedy="Use a key that the tenant's owner made with the scope 'ocr', or the Keys page.",
        )
    return principal


KeyManager = Annotated[Principal, Depends(_managing)]


@me_routes.get("", summary="Who am I?", responses=contract.authenticated())
def show_me(services: PortalServices, principal: AnyKey) -> MeBody:
    """The tenant and its plan, the member who made the key, the key itself, the limits in force and what is left."""
    own = _own_key(services, principal)
    with services.database.reading() as session:
        standing = standing_of(session, principal.tenant_id)
    member = None
    if principal.member_id is not None:
        member = MemberBody(id=principal.member_id, email=principal.email, role=principal.role)
    return MeBody(
        tenant=_tenant(principal, standing.terms),
        member=member,
        key=None if own is None else key_body(own),
        scopes=sorted(principal.scopes),
        limits=_limits(services.settings.intake, intake_of(services.jobs, standing.terms.limits)),
        standing=standing_bodies(standing),
    )


@routes.get("", summary="List keys", responses=contract.reading())
def list_keys(services: PortalServices, principal: Reader) -> KeyList:
    """Your tenant's keys, newest first, revoked ones too. Secrets are not stored, so none is shown."""
    with services.database.reading() as session:
        return KeyList(data=[key_body(key) for key in api_keys.list_keys(session, principal.tenant_id)])


@routes.post(
    "",
    status_code=status.HTTP_201_CREATED,
    summary="Make a key",
    responses=contract.authenticated(*_KEY_ERRORS, *_ORDER_ERRORS),
)
def create_key(services: PortalServices, principal: KeyManager, order: KeyOrder, response: Response) -> CreatedKeyBody:
    """Makes a key, shown in this answer only.

    For keys that the tenant's owner made with scope `ocr` (or `admin`). The new key has no scope that the asking key
    lacks, and ends no later than it.
    """
    expires_at = _bounded_expiry(_own_key(services, principal), order.expires_at)
    with services.database.transaction() as session:
        created = api_keys.create(
            session, services.peppers, principal, name=order.name, scopes=order.scopes, expires_at=expires_at
        )
    response.headers["Cache-Control"] = "no-store"
    return created_key_body(created.view, created.key)


@routes.post(
    "/{key_id}/rotate",
    status_code=status.HTTP_201_CREATED,
    summary="Replace a key",
    responses=contract.authenticated(
        *("malformed_body", *_KEY_ERRORS, "scope_not_allowed", "api_key_unknown", "api_key_ended", "api_key_replaced")
    ),
)
def rotate_key(
    services: PortalServices, principal: KeyManager, key_id: KeyId, response: Response, order: RotationOrder
) -> CreatedKeyBody:
    """Makes a key with the same name and scopes, shown in this answer only; the old one works on for `overlap`.

    For the keys that may make keys. The new key lives as long as the old one was given to live, but ends no later than
    the key that asks: one that expires cannot lengthen its own life.
    """
    own = _own_key(services, principal)
    with services.database.transaction() as session:
        created = rotate(
            session,
            services.peppers,
            principal,
            key_id,
            overlap=order.overlap,
            not_after=own.expires_at if own else None,
        )
    response.headers["Cache-Control"] = "no-store"
    return created_key_body(created.view, created.key)


@routes.delete(
    "/{key_id}",
    summary="Revoke a key",
    responses=contract.authenticated(*_KEY_ERRORS, "api_key_unknown", "api_key_of_other_member"),
)
async def revoke_key(
    services: PortalServices,
    principal: AnyKey,
    key_id: KeyId,
) -> KeyBody:
    """Ends a key at once and for good. Any key may revoke itself; others only who may make keys."""
    if key_id != principal.api_key_id:
        await _managing(principal)
    return await run_in_threadpool(_revoke, services, principal, key_id)


def _revoke(services: Services, principal: Principal, key_id: str) -> KeyBody:
    with services.database.transaction() as session:
        return key_body(api_keys.revoke(session, principal, key_id))


def _own_key(services: Services, principal: Principal) -> ApiKeyView | None:
    with services.database.reading() as session:
        keys = api_keys.list_keys(session, principal.tenant_id)
    return next((key for key in keys if key.id == principal.api_key_id), None)


def _bounded_expiry(own: ApiKeyView | None, asked: datetime | None) -> datetime | None:
    """The asked expiry, which a key that ends itself cannot put past its own."""
    bound = own.expires_at if own else None
    if bound is None or asked is None:
        return asked or bound
    if asked.tzinfo is not None and asked > bound:
        raise Forbidden(
            "The new key would outlive the key that asks for it.",
            code="expiry_not_allowed",
            remedy="Choose an earlier expires_at, leave it out, or use the Keys page.",
        )
    return asked


def _tenant(principal: Principal, terms: Terms) -> TenantBody:
    return TenantBody(
        id=principal.tenant_id,
        name=principal.tenant_name,
        plan=terms.plan,
        time_zone=terms.time_zone,
        state=terms.state,
        state_reason=terms.state_reason,
    )


def _limits(intake: IntakeSettings, own: IntakeSettings) -> LimitsBody:
    return LimitsBody(
        max_file_bytes=own.max_file_bytes,
        max_body_bytes=body_limit_bytes(intake),
        max_job_files=intake.max_job_files,
        max_document_pages=own.max_document_pages,
        max_page_pixels=intake.max_page_pixels,
        max_wait_seconds=MAX_WAIT_SECONDS,
    )
