"""All tenants as an admin sees them: plan, state, use against the limits, who is near its end first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models import ApiKey, Member, Tenant
from models.base import now
from portal.domain import Limit, Standing
from portal.errors import NotFound
from portal.usage.standing import TenantStanding, standing_of

NEAR_PERCENT = 80
_COUNTED = frozenset({Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH})


@dataclass(frozen=True)
class TenantRow:
    """One tenant: its standing now, its first owner, and when anybody of it was last seen (browser or key)."""

    id: str
    name: str
    owner: str | None
    created_at: datetime
    last_seen_at: datetime | None
    standing: TenantStanding

    @property
    def tightest(self) -> Standing | None:
        """The quota of which the largest part is used; None where none limits it."""
        return max(self._quotas, key=lambda quota: quota.used_share, default=None)

    @property
    def percent(self) -> int:
        """How much of its tightest quota is used."""
        tightest = self.tightest
        return round(100 * tightest.used_share) if tightest else 0

    @property
    def is_near(self) -> bool:
        """True for those to be shown first."""
        return self.percent > NEAR_PERCENT

    @property
    def _quotas(self) -> list[Standing]:
        found = self.standing.standings
        return [standing for standing in found if standing.limit in _COUNTED and standing.allowed is not None]


def list_tenants(session: Session, *, at: datetime | None = None) -> list[TenantRow]:
    """Those over 80 % of a quota first, the fullest before; then the rest by name."""
    at = at or now()
    owners, seen = _owners(session), _last_seen(session)
    rows = [_row(session, tenant, owners, seen, at) for tenant in session.scalars(select(Tenant))]
    return sorted(rows, key=lambda row: (not row.is_near, -row.percent if row.is_near else 0, row.name.casefold()))


def find_tenant(session: Session, tenant_id: str, *, at: datetime | None = None) -> TenantRow:
    """One of them, by its id. Raises NotFound (tenant_unknown)."""
    tenant = session.get(Tenant, tenant_id)
    if tenant is None:
        raise NotFound("There is no such tenant.", code="tenant_unknown")
    return _row(session, tenant, _owners(session), _last_seen(session), at or now())


def _row(
    session: Session, tenant: Tenant, owners: dict[str, str], seen: dict[str, datetime], at: datetime
) -> TenantRow:
    standing = standing_of(session, tenant.id, at=at)
    return TenantRow(tenant.id, tenant.name, owners.get(tenant.id), tenant.created_at, seen.get(tenant.id), standing)


def _owners(session: Session) -> dict[str, str]:
    rows = session.execute(
        select(Member.tenant_id, Member.email)
        .where(Member.role == "owner", Member.removed_at.is_(None))
        .order_by(Member.created_at.desc(), Member.id.desc())
    )
    return {tenant_id: email for tenant_id, email in rows}


def _last_seen(session: Session) -> dict[str, datetime]:
    seen: dict[str, datetime] = {}
    browsers = select(Member.tenant_id, func.max(Member.last_seen_at)).group_by(Member.tenant_id)
    keys = select(ApiKey.tenant_id, func.max(ApiKey.last_used_at)).group_by(ApiKey.tenant_id)
    for tenant_id, moment in (*session.execute(browsers), *session.execute(keys)):
        if moment is not None:
            seen[tenant_id] = max(moment, seen.get(tenant_id, moment))
    return seen
