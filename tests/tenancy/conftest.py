"""The bench of the job tests, and an admin."""

from __future__ import annotations

import pytest

from models import Member, Tenant
from portal.domain import Principal, Role, Scope
from tests.jobs.conftest import Bench, bench, sandbox, sqlite_bench

__all__ = ["bench", "sandbox", "sqlite_bench"]


@pytest.fixture
def admin(bench: Bench) -> Principal:
    with bench.context.database.transaction() as session:
        tenant = Tenant(name="admin")
        session.add(tenant)
        session.flush()
        member = Member(tenant_id=tenant.id, email="admin@x.example", password_hash="-", role="owner", is_admin=True)
        session.add(member)
        session.flush()
        scopes = frozenset(Scope)
        return Principal(tenant.id, "admin", member.id, member.email, Role.OWNER, True, scopes, address="192.0.2.7")
