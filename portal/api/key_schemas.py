"""What the API says of keys, and of the caller. Times are ISO 8601 in UTC, sizes bytes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from portal.accounts.api_keys import ApiKeyView
from portal.api.body import Body
from portal.api.usage_schemas import StandingBody
from portal.domain import Scope


class KeyBody(Body):
    """An API key without its secret."""

    id: str
    object: Literal["api_key"] = "api_key"
    name: str
    prefix: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    last_used_address: str | None
    revoked_at: datetime | None
    created_by: str | None
    replaced_by: str | None = Field(description="The `id` of the key that a rotation made in its place")


class CreatedKeyBody(KeyBody):
    """A new API key; `key` is shown this once and stored nowhere."""

    key: str


class KeyList(Body):
    """The tenant's keys, newest first, revoked ones too."""

    object: Literal["list"] = "list"
    data: list[KeyBody]


class TenantBody(Body):
    """The caller's tenant. `state` is active, or no_new_jobs with the admin's reason."""

    id: str
    name: str
    plan: str
    time_zone: str = Field(description="Where its days and months begin, an IANA name")
    state: str
    state_reason: str | None


class MemberBody(Body):
    """Who made the key."""

    id: str
    email: str | None
    role: str


class LimitsBody(Body):
    """What one request and one document may be."""

    max_file_bytes: int
    max_body_bytes: int
    max_job_files: int
    max_document_pages: int
    max_page_pixels: int
    max_wait_seconds: int


class MeBody(Body):
    """The caller: tenant with its plan, member, key, the limits in force and how the tenant stands against them."""

    tenant: TenantBody
    member: MemberBody | None
    key: KeyBody | None
    scopes: list[Scope]
    limits: LimitsBody
    standing: list[StandingBody] = Field(description="Each counted limit, what is used and left of it")


def key_body(key: ApiKeyView) -> KeyBody:
    """A key without its secret."""
    return KeyBody.model_validate(key)


def created_key_body(key: ApiKeyView, secret: str) -> CreatedKeyBody:
    """A key with its secret, for the one answer that shows it."""
    return CreatedKeyBody(**key_body(key).model_dump(), key=secret)
