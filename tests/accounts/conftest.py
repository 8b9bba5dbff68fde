"""People for account tests: alice owns a tenant, bob is her member, charlie owns another one."""

from __future__ import annotations

import pytest

from models import Member, Tenant
from portal.accounts import passwords, tenants
from portal.accounts.members import member_principal
from portal.accounts.peppers import Peppers
from portal.db import Database
from portal.domain import Principal
from tests.accounts import PASSWORD


@pytest.fixture(scope="session")
def password_hash() -> str:
    """The hash of PASSWORD, made once: each costs 19 MiB and tens of milliseconds."""
    return passwords.hashed(PASSWORD)


@pytest.fixture
def peppers() -> Peppers:
    return Peppers.from_secrets(["a" * 32])


@pytest.fixture
def alice(database: Database, password_hash: str) -> Principal:
    with database.transaction() as session:
        return tenants.create_tenant(
            session, name="Alpha", email="alice@example.org", password_hash=password_hash, time_zone="UTC"
        )


@pytest.fixture
def bob(database: Database, alice: Principal, password_hash: str) -> Principal:
    with database.transaction() as session:
        row = Member(tenant_id=alice.tenant_id, email="bob@example.org", password_hash=password_hash, role="member")
        session.add(row)
        session.flush()
        tenant = session.get(Tenant, alice.tenant_id)
        assert tenant is not None
        return member_principal(row, tenant)


@pytest.fixture
def charlie(database: Database, password_hash: str) -> Principal:
    with database.transaction() as session:
        return tenants.create_tenant(
            session, name="Gamma", email="charlie@example.org", password_hash=password_hash, time_zone="UTC"
        )
