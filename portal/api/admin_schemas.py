"""What /v1/admin answers with: tenants, limits and their changes, plans, requests for more, dry runs, the audit log."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from models import AuditEntry
from portal.accounts.registration import RegistrationMode
from portal.api.body import Body
from portal.domain import Limit, TenantState
from portal.tenancy.directory import TenantRow
from portal.tenancy.dry_run import Verdict
from portal.tenancy.inventory import Inventory
from portal.usage.limit_edits import Change, Preview
from portal.usage.limit_effects import Effect
from portal.usage.plans import PlanView
from portal.usage.quota_decisions import QuotaAsk


class StandingBody(Body):
    """How the tenant stands against one limit."""

    limit: Limit
    allowed: int | None
    used: int
    resets_at: datetime | None


class AdminTenantBody(Body):
    """A tenant: its terms and what it has used."""

    id: str
    object: Literal["tenant"] = "tenant"
    name: str
    owner: str | None
    state: TenantState
    state_reason: str | None
    plan: str
    time_zone: str
    limits: dict[str, float | None]
    standings: list[StandingBody]
    percent_used: int = Field(description="Of the quota of which most is used")
    last_seen_at: datetime | None
    created_at: datetime
    stored: dict[str, int] | None = Field(default=None, description="What it has stored; where one tenant is shown")


class AdminTenantList(Body):
    """All tenants, those over 80 % of a quota first."""

    object: Literal["list"] = "list"
    data: list[AdminTenantBody]


class CreatedTenantBody(Body):
    """A new tenant; the one-time password is in this answer only."""

    tenant: AdminTenantBody
    one_time_password: str


class DeletedTenantBody(Body):
    """What went."""

    id: str
    deleted: Literal[True] = True
    gone: dict[str, int]


class EffectBody(Body):
    """One thing that differs, what counts against it now, and what that does."""

    subject: str
    old: float | str | None
    new: float | str | None
    used: int | None
    words: str


class QuotaChangeBody(Body):
    """What a change did, or would do. `change_id` undoes it until `undo_until`."""

    change_id: str | None
    effects: list[EffectBody]
    undo_until: datetime | None = None
    seen: str | None = None


class RegistrationBody(Body):
    """Who may make a new tenant, and whether the operator fixed that."""

    mode: RegistrationMode
    is_fixed: bool


class PlanBody(Body):
    """A plan and how many tenants have it."""

    name: str
    is_default: bool
    tenants: int
    limits: dict[str, float | None]


class PlanList(Body):
    """All plans, the default first."""

    object: Literal["list"] = "list"
    data: list[PlanBody]


class QuotaRequestBody(Body):
    """A tenant's request for more."""

    id: str
    tenant_id: str
    tenant_name: str
    member: str | None
    limit: Limit
    present: float | None
    wanted: float | None
    reason: str
    state: Literal["open", "granted", "declined"]
    answer: str | None
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime


class QuotaRequestList(Body):
    """Open requests first."""

    object: Literal["list"] = "list"
    data: list[QuotaRequestBody]


class WouldRefuseBody(Body):
    """A request that would be refused."""

    at: datetime
    pages: int
    requests: int
    limit: Limit
    was_refused: bool


class VerdictBody(Body):
    """A tenant's last week under the limits that were tried."""

    tenant_id: str
    tenant_name: str
    requests: int
    pages: int
    refused_requests: int
    refused_pages: int
    newly_refused_pages: int
    refused: list[WouldRefuseBody]


class DryRunBody(Body):
    """All tenants, those that would be refused most first."""

    object: Literal["list"] = "list"
    data: list[VerdictBody]


class AuditEntryBody(Body):
    """Who did what to whom, from where, when."""

    id: str
    at: datetime
    actor: str
    action: str
    target: str | None
    tenant_id: str | None
    result: str
    address: str | None
    request_id: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    details: dict[str, Any]


class AuditList(Body):
    """One stretch of the log, newest first."""

    object: Literal["list"] = "list"
    data: list[AuditEntryBody]
    has_more: bool


def tenant_body(row: TenantRow, stored: Inventory | None = None) -> AdminTenantBody:
    """The tenant as the API shows it."""
    terms = row.standing.terms
    return AdminTenantBody(
        id=row.id,
        name=row.name,
        owner=row.owner,
        state=terms.state,
        state_reason=terms.state_reason,
        plan=terms.plan,
        time_zone=terms.time_zone,
        limits=asdict(terms.limits),
        standings=[StandingBody.model_validate(standing) for standing in row.standing.standings],
        percent_used=row.percent,
        last_seen_at=row.last_seen_at,
        created_at=row.created_at,
        stored=asdict(stored) if stored else None,
    )


def change_body(made: Change | Preview) -> QuotaChangeBody:
    """A change or its preview."""
    effects = [_effect(effect) for effect in made.effects]
    if isinstance(made, Preview):
        return QuotaChangeBody(change_id=None, effects=effects, seen=made.seen)
    return QuotaChangeBody(change_id=made.id, effects=effects, undo_until=made.undo_until)


def deleted_body(tenant_id: str, gone: Inventory) -> DeletedTenantBody:
    """What a deletion answers."""
    return DeletedTenantBody(id=tenant_id, gone=asdict(gone))


def plan_body(plan: PlanView) -> PlanBody:
    """A plan as the API shows it."""
    return PlanBody(name=plan.name, is_default=plan.is_default, tenants=plan.tenants, limits=asdict(plan.limits))


def request_body(ask: QuotaAsk) -> QuotaRequestBody:
    """A request for more as the API shows it."""
    return QuotaRequestBody.model_validate(ask)


def verdict_body(verdict: Verdict) -> VerdictBody:
    """A tenant's week as the API shows it."""
    return VerdictBody.model_validate(verdict)


def audit_body(entry: AuditEntry) -> AuditEntryBody:
    """An entry as the API shows it."""
    return AuditEntryBody.model_validate(entry)


def _effect(effect: Effect) -> EffectBody:
    return EffectBody.model_validate(effect)
