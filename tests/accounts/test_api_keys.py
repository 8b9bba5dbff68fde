from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from models import ApiKey, Member
from models.base import now
from portal.accounts import api_keys, key_proof
from portal.accounts.members import member_principal, with_tenant
from portal.accounts.peppers import Peppers
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.errors import Forbidden, InvalidRequest, NotFound, Unauthenticated
from tests.accounts import at_once, audited

ADDRESS = "203.0.113.7"


def _create(
    database: Database,
    peppers: Peppers,
    principal: Principal,
    *scopes: str,
    expires_at: datetime | None = None,
) -> api_keys.CreatedKey:
    with database.transaction() as session:
        return api_keys.create(
            session, peppers, principal, name="Scanner", scopes=scopes or ("ocr", "read"), expires_at=expires_at
        )


def _revoke(database: Database, principal: Principal, key_id: str) -> api_keys.ApiKeyView:
    with database.transaction() as session:
        return api_keys.revoke(session, principal, key_id)


def _row(database: Database) -> ApiKey:
    with database.reading() as session:
        return session.scalars(select(ApiKey)).one()


def _make_admin(database: Database, principal: Principal) -> Principal:
    with database.transaction() as session:
        session.execute(update(Member).where(Member.id == principal.member_id).values(is_admin=True))
    with database.reading() as session:
        member, tenant = session.execute(with_tenant().where(Member.id == principal.member_id)).one()
        return member_principal(member, tenant)


def test_key_proves_its_tenant_and_scopes_when_sent(database: Database, peppers: Peppers, alice: Principal) -> None:
    created = _create(database, peppers, alice)
    principal = key_proof.authenticate(database, peppers, created.key, address=ADDRESS)
    assert principal.tenant_id == alice.tenant_id
    assert principal.member_id == alice.member_id
    assert principal.scopes == {Scope.OCR, Scope.READ}
    assert principal.api_key_id == created.view.id
    assert principal.role is Role.OWNER
    assert not principal.is_admin


def test_only_prefix_and_hash_are_stored_when_made(database: Database, peppers: Peppers, alice: Principal) -> None:
    created = _create(database, peppers, alice)
    prefix, _, secret = created.key.rpartition("_")
    assert prefix == created.view.prefix
    assert len(secret) == 43
    row = _row(database)
    stored = json.dumps({column.name: str(getattr(row, column.name)) for column in ApiKey.__table__.columns})
    audit = json.dumps([[entry.actor, entry.target, entry.details] for entry in audited(database)])
    assert secret not in stored + audit + repr(created)
    assert row.pepper_id == peppers.current.id


@pytest.mark.parametrize("damage", ["last", "prefix", "shape", "empty", "control"])
def test_key_is_refused_and_not_echoed_when_wrong(
    database: Database, peppers: Peppers, alice: Principal, damage: str
) -> None:
    key = _create(database, peppers, alice).key
    wrong = {
        "last": key[:-1] + ("a" if key[-1] != "a" else "b"),
        "prefix": "ocr_" + ("z" * 10) + key[14:],
        "shape": key.replace("_", "-"),
        "empty": "",
        "control": key[:-1] + "\0",
    }[damage]
    with pytest.raises(Unauthenticated) as refusal:
        key_proof.authenticate(database, peppers, wrong, address=ADDRESS)
    assert refusal.value.code == "api_key_invalid"
    assert key[4:] not in repr(refusal.value) + refusal.value.remedy
    assert _row(database).last_used_at is None


def test_key_is_refused_when_revoked(database: Database, peppers: Peppers, alice: Principal) -> None:
    created = _create(database, peppers, alice)
    first = _revoke(database, alice, created.view.id)
    again = _revoke(database, alice, created.view.id)
    assert first.revoked_at is not None
    assert again.revoked_at == first.revoked_at
    with pytest.raises(Unauthenticated) as refusal:
        key_proof.authenticate(database, peppers, created.key, address=ADDRESS)
    assert refusal.value.code == "api_key_revoked"
    assert [entry.action for entry in audited(database)].count("api_key.revoked") == 1


def test_key_is_refused_when_its_member_is_gone_and_the_key_was_made_at_that_moment(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    key = _create(database, peppers, alice).key
    with database.transaction() as session:
        session.execute(update(Member).where(Member.id == alice.member_id).values(removed_at=now()))
    with pytest.raises(Unauthenticated) as refusal:
        key_proof.authenticate(database, peppers, key, address=ADDRESS)
    assert refusal.value.code == "api_key_revoked"


def test_key_is_refused_when_expired(database: Database, peppers: Peppers, alice: Principal) -> None:
    created = _create(database, peppers, alice, expires_at=now() + timedelta(hours=1))
    key_proof.authenticate(database, peppers, created.key, address=ADDRESS)
    with database.transaction() as session:
        session.execute(update(ApiKey).values(expires_at=now() - timedelta(seconds=1)))
    with pytest.raises(Unauthenticated) as refusal:
        key_proof.authenticate(database, peppers, created.key, address=ADDRESS)
    assert refusal.value.code == "api_key_expired"


def test_use_is_written_once_a_minute_when_used_often(database: Database, peppers: Peppers, alice: Principal) -> None:
    key = _create(database, peppers, alice).key
    key_proof.authenticate(database, peppers, key, address=ADDRESS)
    first = _row(database)
    assert first.last_used_at is not None
    assert first.last_used_address == ADDRESS
    key_proof.authenticate(database, peppers, key, address="198.51.100.1")
    assert _row(database).last_used_at == first.last_used_at
    with database.transaction() as session:
        session.execute(update(ApiKey).values(last_used_at=now() - timedelta(seconds=61)))
    key_proof.authenticate(database, peppers, key, address="198.51.100.1")
    assert _row(database).last_used_address == "198.51.100.1"


@pytest.mark.parametrize(
    ("scopes", "code"), [((), "scope_missing"), (("ocr", "root"), "scope_unknown"), (("",), "scope_unknown")]
)
def test_key_is_not_made_when_its_scopes_are_wrong(
    database: Database, peppers: Peppers, alice: Principal, scopes: tuple[str, ...], code: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal, database.transaction() as session:
        api_keys.create(session, peppers, alice, name="Scanner", scopes=scopes)
    assert refusal.value.code == code
    with database.reading() as session:
        assert session.scalars(select(ApiKey)).all() == []


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "bell\a"])
def test_key_is_not_made_when_its_name_is_wrong(
    database: Database, peppers: Peppers, alice: Principal, name: str
) -> None:
    with pytest.raises(InvalidRequest), database.transaction() as session:
        api_keys.create(session, peppers, alice, name=name, scopes=["ocr"])


@pytest.mark.parametrize("expires_at", [now() - timedelta(days=1), datetime(2099, 1, 1)])
def test_key_is_not_made_when_its_expiry_is_past_or_without_zone(
    database: Database, peppers: Peppers, alice: Principal, expires_at: datetime
) -> None:
    with pytest.raises(InvalidRequest):
        _create(database, peppers, alice, expires_at=expires_at)


def test_admin_scope_is_refused_when_the_member_is_no_admin(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    with pytest.raises(Forbidden) as refusal:
        _create(database, peppers, alice, "ocr", "admin")
    assert refusal.value.code == "scope_not_allowed"


def test_key_is_admin_only_while_its_member_is(database: Database, peppers: Peppers, alice: Principal) -> None:
    admin = _make_admin(database, alice)
    plain = _create(database, peppers, admin, "ocr").key
    powerful = _create(database, peppers, admin, "admin").key
    assert not key_proof.authenticate(database, peppers, plain, address=None).is_admin
    assert key_proof.authenticate(database, peppers, powerful, address=None).is_admin
    with database.transaction() as session:
        session.execute(update(Member).values(is_admin=False))
    assert not key_proof.authenticate(database, peppers, powerful, address=None).is_admin


def test_key_cannot_make_a_stronger_key(database: Database, peppers: Peppers, alice: Principal) -> None:
    reader = key_proof.authenticate(database, peppers, _create(database, peppers, alice, "read").key, address=None)
    with pytest.raises(Forbidden):
        _create(database, peppers, reader, "ocr")
    assert _create(database, peppers, reader, "read").view.created_by == "alice@example.org"


def test_each_persona_reaches_only_what_is_theirs(
    database: Database, peppers: Peppers, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    of_alice, of_bob = _create(database, peppers, alice), _create(database, peppers, bob)
    with database.reading() as session:
        seen = api_keys.list_keys(session, alice.tenant_id)
        assert {view.created_by for view in seen} == {"alice@example.org", "bob@example.org"}
        assert api_keys.list_keys(session, charlie.tenant_id) == []
    with pytest.raises(NotFound):
        _revoke(database, charlie, of_alice.view.id)
    with pytest.raises(Forbidden):
        _revoke(database, bob, of_alice.view.id)
    key_proof.authenticate(database, peppers, of_alice.key, address=None)
    assert _revoke(database, bob, of_bob.view.id).revoked_at is not None
    assert _revoke(database, alice, of_alice.view.id).revoked_at is not None


def test_key_works_when_the_server_secret_was_changed_and_the_old_is_kept(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    key = _create(database, peppers, alice).key
    rotated = Peppers.from_secrets(["b" * 32, "a" * 32])
    assert key_proof.authenticate(database, rotated, key, address=None).tenant_id == alice.tenant_id
    with pytest.raises(Unauthenticated), capture_logs() as logs:
        key_proof.authenticate(database, Peppers.from_secrets(["b" * 32]), key, address=None)
    assert "server secret" in str(logs)
    assert key.rpartition("_")[2] not in str(logs)


def test_all_succeed_when_a_new_key_is_used_twenty_times_at_once(
    database: Database, peppers: Peppers, alice: Principal
) -> None:
    key = _create(database, peppers, alice).key
    results = at_once(20, lambda _: key_proof.authenticate(database, peppers, key, address=ADDRESS))
    assert all(isinstance(result, Principal) for result in results)
