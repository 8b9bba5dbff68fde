from __future__ import annotations

import pytest

from models import Tenant
from portal.accounts import api_keys, key_proof, sessions, suspension, tenants
from portal.accounts.naming import ADMIN_TENANT
from portal.accounts.peppers import Peppers
from portal.db import Database
from portal.domain import Principal, Scope, TenantState
from portal.errors import InvalidRequest, NotFound, PortalError, Unauthenticated
from tests.accounts import PASSWORD, audited

REASON = "The invoice of May is open."


def _sign_in(database: Database, email: str, password: str = PASSWORD) -> str:
    return sessions.sign_in(database, email=email, password=password, address=None, user_agent=None, days=1)


def _suspend(database: Database, tenant_id: str, state: TenantState, reason: str = REASON) -> int:
    with database.transaction() as session:
        return suspension.suspend(session, tenant_id, state=state, reason=reason, actor="admin@localhost")


def _resume(database: Database, tenant_id: str) -> None:
    with database.transaction() as session:
        suspension.resume(session, tenant_id, actor="admin@localhost")


def test_nobody_comes_in_and_who_knows_the_password_learns_why_when_suspended(
    database: Database, peppers: Peppers, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    tokens = [_sign_in(database, email) for email in ("alice@example.org", "bob@example.org")]
    other = _sign_in(database, "charlie@example.org")
    with database.transaction() as session:
        key = api_keys.create(session, peppers, alice, name="k", scopes=(Scope.READ,)).key
    assert _suspend(database, alice.tenant_id, TenantState.SUSPENDED) == 2
    assert [sessions.resolve(database, token) for token in tokens] == [None, None]
    assert sessions.resolve(database, other) is not None
    for act in (
        lambda: _sign_in(database, "alice@example.org"),
        lambda: key_proof.authenticate(database, peppers, key, address=None),
    ):
        with pytest.raises(suspension.TenantSuspended) as refusal:
            act()
        assert (refusal.value.code, refusal.value.kind) == ("tenant_suspended", "forbidden")
        assert REASON in refusal.value.message
    with pytest.raises(Unauthenticated) as guessed:
        _sign_in(database, "alice@example.org", "wrong password")
    assert REASON not in guessed.value.message
    _resume(database, alice.tenant_id)
    assert sessions.resolve(database, _sign_in(database, "alice@example.org")) is not None
    assert key_proof.authenticate(database, peppers, key, address=None).no_new_jobs is None
    actions = [entry.action for entry in audited(database)]
    assert {"tenant.suspended", "tenant.resumed", "member.sign_in_refused"} <= set(actions)


def test_sign_in_and_keys_work_and_say_why_when_new_work_is_stopped(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    token = _sign_in(database, "alice@example.org")
    with database.transaction() as session:
        key = api_keys.create(session, peppers, alice, name="k", scopes=(Scope.READ,)).key
    assert _suspend(database, alice.tenant_id, TenantState.NO_NEW_JOBS) == 0
    signed_in = sessions.resolve(database, token)
    assert signed_in is not None
    assert signed_in.principal.no_new_jobs == REASON
    assert _sign_in(database, "alice@example.org")
    assert key_proof.authenticate(database, peppers, key, address=None).no_new_jobs == REASON


def test_no_session_works_when_it_was_opened_as_the_tenant_was_suspended(database: Database, alice: Principal) -> None:
    token = _sign_in(database, "alice@example.org")
    with database.transaction() as session:
        session.get_one(Tenant, alice.tenant_id).state = TenantState.SUSPENDED
    assert sessions.resolve(database, token) is None


def test_suspension_is_refused_when_it_makes_no_sense(database: Database, alice: Principal, password_hash: str) -> None:
    with database.transaction() as session:
        admin = tenants.insert_tenant(
            session, name=ADMIN_TENANT, email="admin@localhost", password_hash=password_hash, time_zone="UTC"
        )
    for tenant_id, state, reason, code in (
        (admin.tenant_id, TenantState.SUSPENDED, REASON, "admin_tenant"),
        ("ten_nobody", TenantState.SUSPENDED, REASON, "tenant_unknown"),
        (alice.tenant_id, TenantState.ACTIVE, REASON, "state_invalid"),
        (alice.tenant_id, TenantState.SUSPENDED, " ", "reason_invalid"),
        (alice.tenant_id, TenantState.SUSPENDED, "x" * 301, "reason_invalid"),
        (alice.tenant_id, TenantState.SUSPENDED, "a\0b", "reason_invalid"),
    ):
        with pytest.raises(PortalError) as refusal:
            _suspend(database, tenant_id, state, reason)
        assert refusal.value.code == code
        assert isinstance(refusal.value, InvalidRequest | NotFound) or code == "admin_tenant"
    with database.reading() as session:
        assert session.get_one(Tenant, alice.tenant_id).state == "active"
