from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from threading import Barrier, BrokenBarrierError

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from models import Member
from portal.accounts import api_keys, authority, key_proof, membership, rotation, sessions, tenants
from portal.accounts.peppers import Peppers
from portal.accounts.rotation import Overlap, rotate
from portal.accounts.standing import refuse_ended_key
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.errors import Conflict, Forbidden, NotFound, PortalError, TooManyAttempts, Unauthenticated
from tests.accounts import PASSWORD, at_once, audited


def _sign_in(database: Database, email: str) -> str:
    return sessions.sign_in(database, email=email, password=PASSWORD, address=None, user_agent=None, days=1)


def _key(database: Database, peppers: Peppers, principal: Principal) -> api_keys.CreatedKey:
    with database.transaction() as session:
        return api_keys.create(session, peppers, principal, name="k", scopes=(Scope.READ,))


def _owner(database: Database, alice: Principal, bob: Principal) -> Principal:
    """Bob, made an owner."""
    with database.transaction() as session:
        membership.change_role(session, alice, _id(bob), Role.OWNER)
    return replace(bob, role=Role.OWNER)


def _id(principal: Principal) -> str:
    assert principal.member_id is not None
    return principal.member_id


def _remove(database: Database, principal: Principal, member_id: str) -> None:
    with database.transaction() as session:
        membership.remove_member(session, principal, member_id)


def _roles(database: Database, tenant_id: str) -> dict[str, str]:
    with database.reading() as session:
        return {view.email: view.role.value for view in membership.list_members(session, tenant_id)}


def test_members_are_listed_for_their_tenant_alone(
    database: Database, peppers: Peppers, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    _sign_in(database, "bob@example.org")
    _key(database, peppers, bob)
    with database.reading() as session:
        first, second = membership.list_members(session, alice.tenant_id)
        with pytest.raises(NotFound):
            membership.find_member(session, charlie.tenant_id, _id(bob))
    assert (first.email, first.role, first.browsers, first.keys, first.last_seen_at) == (
        "alice@example.org",
        Role.OWNER,
        0,
        0,
        None,
    )
    assert (second.email, second.role, second.browsers, second.keys) == ("bob@example.org", Role.MEMBER, 1, 1)
    assert second.last_seen_at is not None


def test_sessions_and_keys_end_and_the_email_is_free_when_a_member_is_removed(
    database: Database, peppers: Peppers, alice: Principal, bob: Principal, charlie: Principal, password_hash: str
) -> None:
    token, key = _sign_in(database, "bob@example.org"), _key(database, peppers, bob)
    kept = _sign_in(database, "alice@example.org")
    _remove(database, alice, _id(bob))
    assert sessions.resolve(database, token) is None
    assert sessions.resolve(database, kept) is not None
    with pytest.raises(Unauthenticated) as ended:
        key_proof.authenticate(database, peppers, key.key, address=None)
    assert ended.value.code == "api_key_revoked"
    with pytest.raises(Unauthenticated) as refusal:
        _sign_in(database, "bob@example.org")
    assert refusal.value.code == "sign_in_failed"
    assert _roles(database, alice.tenant_id) == {"alice@example.org": "owner"}
    with pytest.raises(NotFound):
        tenants.reset_password(database, "bob@example.org", password=PASSWORD)
    last = [entry for entry in audited(database) if entry.action == "member.removed"]
    assert [(entry.actor, entry.target, entry.details["sessions"], entry.details["keys"]) for entry in last] == [
        ("alice@example.org", bob.member_id, 1, 1)
    ]
    with database.transaction() as session:
        again = tenants.create_tenant(
            session, name="Beta", email="bob@example.org", password_hash=password_hash, time_zone="UTC"
        )
    assert again.member_id != bob.member_id
    assert _sign_in(database, "bob@example.org")
    with pytest.raises(NotFound):
        _remove(database, alice, _id(bob))


def test_nothing_is_made_when_who_makes_it_was_removed_meanwhile(
    database: Database, peppers: Peppers, alice: Principal, bob: Principal
) -> None:
    """A request of a browser that came in before the removal and writes after it."""
    key = _key(database, peppers, bob)
    _remove(database, alice, _id(bob))
    with pytest.raises(Unauthenticated):
        _key(database, peppers, bob)
    with pytest.raises(Unauthenticated):
        sessions.open_session(database, bob, user_agent=None, days=1)
    with pytest.raises(Unauthenticated):
        membership.leave(database, bob, password=PASSWORD)
    with pytest.raises(Conflict), database.transaction() as session:
        rotate(session, peppers, alice, key.view.id, overlap=Overlap.DAY)


def test_only_owners_change_members(database: Database, alice: Principal, bob: Principal, charlie: Principal) -> None:
    for person, kind, code in ((bob, Forbidden, "members_not_allowed"), (charlie, NotFound, "member_unknown")):
        with pytest.raises(kind) as refusal:
            _remove(database, person, _id(alice))
        assert refusal.value.code == code
        with pytest.raises(kind), database.transaction() as session:
            membership.change_role(session, person, _id(bob), Role.OWNER)
        with pytest.raises(kind):
            membership.transfer_ownership(database, person, _id(alice), password=PASSWORD)
    assert _roles(database, alice.tenant_id) == {"alice@example.org": "owner", "bob@example.org": "member"}


def test_last_owner_stays(database: Database, alice: Principal, bob: Principal) -> None:
    for act in (
        lambda: _remove(database, alice, _id(alice)),
        lambda: membership.leave(database, alice, password=PASSWORD),
    ):
        with pytest.raises(Conflict) as refusal:
            act()
        assert refusal.value.code == "last_owner"
    with pytest.raises(Conflict), database.transaction() as session:
        membership.change_role(session, alice, _id(alice), Role.MEMBER)
    _owner(database, alice, bob)
    membership.leave(database, alice, password=PASSWORD)
    assert _roles(database, alice.tenant_id) == {"bob@example.org": "owner"}


def test_an_owner_is_left_when_two_remove_each_other_at_once(
    database: Database, alice: Principal, bob: Principal
) -> None:
    pair = (alice, _owner(database, alice, bob))
    results = at_once(2, lambda number: _remove(database, pair[number], _id(pair[1 - number])))
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "Unauthenticated"]
    assert list(_roles(database, alice.tenant_id).values()) == ["owner"]


def test_an_owner_is_left_when_two_demote_themselves_at_once(
    database: Database, alice: Principal, bob: Principal
) -> None:
    pair = (alice, _owner(database, alice, bob))

    def demote(number: int) -> None:
        with database.transaction() as session:
            membership.change_role(session, pair[number], _id(pair[number]), Role.MEMBER)

    results = at_once(2, demote)
    assert [result.code for result in results if isinstance(result, PortalError)] == ["last_owner"]
    assert sorted(_roles(database, alice.tenant_id).values()) == ["member", "owner"]


@pytest.mark.parametrize("end", ["revoke", "rotate"])
def test_none_waits_for_the_other_when_two_end_one_anothers_keys_at_once(
    database: Database,
    peppers: Peppers,
    alice: Principal,
    bob: Principal,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    """Each holds its own key's row before it ends the other's: without the tenant's before, a deadlock on Postgres."""
    pair = (alice, _owner(database, alice, bob))
    keys = [_key(database, peppers, each).view.id for each in pair]
    hers, his = (replace(each, api_key_id=key) for each, key in zip(pair, keys, strict=True))
    both = Barrier(2)

    def held(session: Session, principal: Principal) -> None:
        refuse_ended_key(session, principal)
        with suppress(BrokenBarrierError):
            both.wait(0.5)

    for module in (api_keys, authority, rotation):
        monkeypatch.setattr(module, "refuse_ended_key", held)

    def act(number: int) -> None:
        with database.transaction() as session:
            if number == 0:
                membership.remove_member(session, hers, _id(bob))
            elif end == "rotate":
                rotate(session, peppers, his, keys[0], overlap=Overlap.NONE)
            else:
                api_keys.revoke(session, his, keys[0])

    results = at_once(2, act)
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "Unauthenticated"]


def test_ownership_changes_hands_when_the_password_is_right(
    database: Database, alice: Principal, bob: Principal
) -> None:
    with pytest.raises(Unauthenticated):
        membership.transfer_ownership(database, alice, _id(bob), password="wrong password")
    with pytest.raises(Conflict):
        membership.transfer_ownership(database, alice, _id(alice), password=PASSWORD)
    assert _roles(database, alice.tenant_id)["bob@example.org"] == "member"
    membership.transfer_ownership(database, alice, _id(bob), password=PASSWORD)
    assert _roles(database, alice.tenant_id) == {"alice@example.org": "member", "bob@example.org": "owner"}
    with pytest.raises(Forbidden):
        _remove(database, alice, _id(bob))
    changes = [entry.details for entry in audited(database) if entry.action == "member.role_changed"]
    assert [(change["previous_role"], change["role"]) for change in changes] == [
        ("member", "owner"),
        ("owner", "member"),
    ]


def test_password_guesses_are_throttled_when_leaving(database: Database, bob: Principal) -> None:
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            membership.leave(database, bob, password="wrong password")
    with pytest.raises(TooManyAttempts):
        membership.leave(database, bob, password=PASSWORD)


def test_the_portals_admin_stays(database: Database, alice: Principal, bob: Principal) -> None:
    with database.transaction() as session:
        session.scalars(select(Member).where(Member.email == "bob@example.org")).one().is_admin = True
    with pytest.raises(Conflict) as refusal:
        _remove(database, alice, _id(bob))
    assert refusal.value.code == "portal_admin"


def test_member_gives_no_key_the_scope_of_owners(database: Database, peppers: Peppers, bob: Principal) -> None:
    with pytest.raises(Forbidden) as refusal, database.transaction() as session:
        api_keys.create(session, peppers, bob, name="k", scopes=(Scope.MEMBERS,))
    assert refusal.value.code == "scope_not_allowed"
