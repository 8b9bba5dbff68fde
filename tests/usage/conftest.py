"""A tenant over both databases, and its moments and limits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from models import Member, Reservation, Tenant
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.usage.ledger import EndedPage


@dataclass(frozen=True)
class Books:
    """A database with the tenants of alice and charlie."""

    database: Database
    alice: Principal
    charlie: Principal

    def page(self, reservation_id: str, page_id: str = "pag_1") -> EndedPage:
        """A page of alice's reservation, as the ledger is told of it."""
        with self.database.reading() as session:
            held = session.get_one(Reservation, reservation_id)
            return EndedPage(held.tenant_id, held.job_id or "job_1", page_id, held.id)


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database, _owner(database, "acme"), _owner(database, "other"))


def _owner(database: Database, name: str) -> Principal:
    with database.transaction() as session:
        tenant = Tenant(name=name)
        session.add(tenant)
        session.flush()
        member = Member(tenant_id=tenant.id, email=f"owner@{name}.example", password_hash="-", role="owner")
        session.add(member)
        session.flush()
        return Principal(
            tenant_id=tenant.id,
            tenant_name=name,
            member_id=member.id,
            email=member.email,
            role=Role.OWNER,
            is_admin=False,
            scopes=frozenset({Scope.OCR}),
        )
