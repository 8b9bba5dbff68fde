"""What /v1/admin is asked: bodies and queries, before they reach what does it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from portal.accounts.registration import RegistrationMode
from portal.audit_log import MAX_STRETCH, Filters
from portal.domain import Limit, TenantState
from portal.usage.limit_edits import LimitEdit
from portal.usage.limit_values import LimitChoice

MAX_WORDS = 1000
_LIMITS = "By name; a number, null for no limit"


class _Order(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TenantOrder(_Order):
    """A tenant that is to be made, with its owner."""

    name: str = Field(max_length=100, examples=["acme"])
    email: str = Field(max_length=254, description="The owner's, who signs in", examples=["you@acme.example"])


class StateOrder(_Order):
    """What a tenant is to be allowed. The reason is shown to it."""

    state: TenantState
    reason: str | None = Field(default=None, max_length=MAX_WORDS, description="Needed unless the state is active")


class DeletionOrder(_Order):
    """The tenant's name, typed again."""

    name: str = Field(max_length=MAX_WORDS)


class QuotaOrder(_Order):
    """What is to be changed of a tenant's terms; what is left out stays. Nothing is changed with `dry_run`."""

    limits: dict[Limit, float | Literal["plan"] | None] = Field(
        default_factory=dict,
        description=f"{_LIMITS}, or `plan` for the plan's again",
        examples=[{"pages_per_day": 500}],
    )
    plan: str | None = Field(default=None, max_length=60, description="A plan's name, or `default`")
    time_zone: str | None = Field(default=None, max_length=64, examples=["Europe/Berlin"])
    reason: str | None = Field(default=None, max_length=MAX_WORDS)
    until: datetime | None = Field(default=None, description="When the plan's limits hold again, with its time zone")
    seen: str | None = Field(default=None, max_length=64, description="`seen` of a dry run: refuse if it changed since")
    dry_run: bool = False

    def edit(self) -> LimitEdit:
        """As the change itself takes it."""
        limits: dict[Limit, LimitChoice] = dict(self.limits)
        return LimitEdit(limits, self.plan, self.time_zone, self.reason, self.until)


class RegistrationOrder(_Order):
    """Who may make a new tenant."""

    mode: RegistrationMode


class PlanOrder(_Order):
    """A plan that is to be made."""

    name: str = Field(max_length=MAX_WORDS, examples=["team"])
    limits: dict[Limit, float | None] = Field(default_factory=dict, description=f"{_LIMITS}; the rest is as built in")


class PlanEditOrder(_Order):
    """What is to be changed of a plan."""

    limits: dict[Limit, float | None] = Field(default_factory=dict, description=_LIMITS)
    is_default: Literal[True] | None = Field(default=None, description="true: for tenants that were given no other")


class GrantOrder(_Order):
    """What the tenant gets; what is left out is what it asked for."""

    value: float | None = None
    answer: str = Field(default="", max_length=2000)
    until: datetime | None = None


class DeclineOrder(_Order):
    """Why not, in words that the tenant reads."""

    answer: str = Field(max_length=2000)


class DryRunOrder(_Order):
    """Limits to try on last week's traffic."""

    limits: dict[Limit, float | None] = Field(description=f"{_LIMITS}; the rest is as each tenant has it")
    tenant_id: str | None = Field(default=None, max_length=60, description="One tenant; all when left out")


class AuditQuery(_Order):
    """Which entries; what is left out takes all."""

    since: datetime | None = Field(default=None, description="From this moment, with its time zone")
    until: datetime | None = Field(default=None, description="Before this moment, with its time zone")
    actor: str | None = Field(default=None, max_length=254, description="Who: an e-mail, `operator` …")
    action: str | None = Field(default=None, max_length=60, description="Whole, or a subject with its dot: `api_key.`")
    target: str | None = Field(default=None, max_length=254, description="An id")
    tenant: str | None = Field(default=None, max_length=100, description="Id or name")
    result: Literal["ok", "refused"] | None = Field(default=None, description="How it ended")
    request_id: str | None = Field(default=None, max_length=64, description="Of an answer, or of a log line")

    def filters(self, before: str | None = None) -> Filters:
        """As the log itself takes them."""
        return Filters(**self.model_dump(exclude={"before", "limit"}), before=before)


class AuditStretchQuery(AuditQuery):
    """Which entries, and how many at a time."""

    before: str | None = Field(default=None, max_length=60, description="`id` of the last entry that you have")
    limit: int = Field(default=100, ge=1, le=MAX_STRETCH - 1, description="Entries at most")
