"""Members as rows and as principals: the one place where a member's rights are worked out."""

from __future__ import annotations

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import Session

from models import Member, Tenant
from portal.accounts.suspension import HasState
from portal.domain import Principal, Role, Scope, TenantState

_EVERY_SCOPE = frozenset(Scope)
_OWNER_SCOPES = _EVERY_SCOPE - {Scope.ADMIN}
_MEMBER_SCOPES = _OWNER_SCOPES - {Scope.MEMBERS}


def member_principal(member: Member, tenant: Tenant, *, address: str | None = None) -> Principal:
    """The principal of a signed-in member: all scopes, `admin` only with its flag, `members` only for an owner."""
    role = Role(member.role)
    own_scopes = _OWNER_SCOPES if role is Role.OWNER else _MEMBER_SCOPES
    return Principal(
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        member_id=member.id,
        email=member.email,
        role=role,
        is_admin=member.is_admin,
        scopes=own_scopes | ({Scope.ADMIN} if member.is_admin else set()),
        address=address,
        no_new_jobs=no_new_jobs(tenant),
    )


def no_new_jobs(tenant: HasState) -> str | None:
    """Why the tenant may submit nothing: the admin's reason, empty where none was given; None where it may."""
    return None if tenant.state == TenantState.ACTIVE else tenant.state_reason or ""


def with_tenant() -> Select[Member, Tenant]:
    """Selects present members, not removed ones, together with the tenant each belongs to."""
    return select(Member, Tenant).join(Tenant, Tenant.id == Member.tenant_id).where(Member.removed_at.is_(None))


def find_by_email(session: Session, email: str) -> Row[Member, Tenant] | None:
    """The present member with this normalised e-mail (unique over all tenants) and its tenant, None when unknown."""
    return session.execute(with_tenant().where(Member.email == email)).one_or_none()
