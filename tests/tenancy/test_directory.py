"""Tenants as the admin sees them."""

from __future__ import annotations

from datetime import timedelta

from models import ApiKey, Member
from models.base import now
from portal.tenancy.directory import find_tenant, list_tenants
from tests.jobs.conftest import Bench


def test_tenant_was_last_seen_when_any_of_its_people_or_keys_was(bench: Bench) -> None:
    database, tenant_id, at = bench.context.database, bench.alice.tenant_id, now()
    with database.transaction() as session:
        assert find_tenant(session, tenant_id).last_seen_at is None
        # No browser of theirs is signed in any more.
        for who, minutes in ((bench.alice, 9), (bench.bob, 5), (bench.charlie, 1)):
            session.get_one(Member, who.member_id).last_seen_at = at - timedelta(minutes=minutes)
        session.flush()
        assert find_tenant(session, tenant_id).last_seen_at == at - timedelta(minutes=5)
        key = ApiKey(tenant_id=tenant_id, name="k", prefix="p", key_hash="-", pepper_id="-", scopes="ocr")
        key.last_used_at = at
        session.add(key)
        session.flush()
        seen = {row.id: row.last_seen_at for row in list_tenants(session)}
    assert (seen[tenant_id], seen[bench.charlie.tenant_id]) == (at, at - timedelta(minutes=1))
    assert seen[bench.dora.tenant_id] is None
