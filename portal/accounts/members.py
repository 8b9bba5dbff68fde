"""Members as rows and as principals: the one place where a member's rights are worked out."""

from __future__ import annotations

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import Session

from models import Member, Tenant
from portal.domain import Principal, Role, Scope

_EVERY_SCOPE = frozenset(Scope)
_MEMBER_SCOPES = _EVERY_SCOPE - {Scope.ADMIN}


def member_principal(member: Member, tenant: Tenant, *, address: str | None = None) -> Principal:
    """The principal of a signed-in member: every scope, `admin` only with the admin flag."""
    return Principal(
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        member_id=member.id,
        email=member.email,
        role=Role(member.role),
        is_admin=member.is_admin,
        scopes=_EVERY_SCOPE if member.is_admin else _MEMBER_SCOPES,
        address=address,
    )


def with_tenant() -> Select[Member, Tenant]:
    """Selects members together with the tenant each belongs to."""
    return select(Member, Tenant).join(Tenant, Tenant.id == Member.tenant_id)


def find_by_email(session: Session, email: str) -> Row[Member, Tenant] | None:
    """The member with this normalised e-mail (unique over all tenants) and its tenant, None when unknown."""
    return session.execute(with_tenant().where(Member.email == email)).one_or_none()
