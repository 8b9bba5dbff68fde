from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import delete, select, update

from models import Invite, Member, Tenant
from models.base import now
from portal.accounts import invites, joining, sessions, throttle
from portal.accounts.invites import CreatedInvite, InviteTerms
from portal.accounts.joining import Newcomer
from portal.accounts.membership import change_role, remove_member
from portal.db import Database
from portal.domain import Principal, Role
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound, PortalError, TooManyAttempts
from tests.accounts import PASSWORD, at_once, audited

ADDRESS = "203.0.113.7"


def _invite(database: Database, principal: Principal, terms: InviteTerms | None = None) -> CreatedInvite:
    with database.transaction() as session:
        return invites.invite_member(session, principal, terms or InviteTerms())


def _join(database: Database, token: str, email: str = "dora@example.org", **given: str) -> Principal:
    newcomer = Newcomer(email, PASSWORD, address=ADDRESS, **given)
    return joining.join(database, token, newcomer, time_zone="Asia/Tokyo")


def _row(database: Database, made: CreatedInvite) -> Invite:
    with database.reading() as session:
        return session.get_one(Invite, made.view.id)


def _refusal(database: Database, token: str) -> str:
    with pytest.raises(PortalError) as refusal:
        joining.offer_of(database, token, address=None)
    return refusal.value.code


def test_guest_joins_the_tenant_with_the_links_role_when_invited(database: Database, alice: Principal) -> None:
    made = _invite(database, alice, InviteTerms(Role.OWNER, 3, "Dora"))
    assert len(made.token) >= 43
    assert made.token not in (_row(database, made).token_hash, repr(made))
    assert timedelta(days=2) < made.view.expires_at - now() <= timedelta(days=3)
    assert made.link("https://ocr.example") == f"https://ocr.example/invite#{made.token}"
    offer = joining.offer_of(database, made.token, address=ADDRESS)
    assert (offer.tenant_name, offer.role, offer.invited_by) == ("Alpha", Role.OWNER, "alice@example.org")
    dora = _join(database, made.token, " Dora@Example.ORG ")
    assert (dora.tenant_id, dora.role, dora.email) == (alice.tenant_id, Role.OWNER, "dora@example.org")
    assert not dora.is_admin
    token = sessions.sign_in(
        database, email="dora@example.org", password=PASSWORD, address=None, user_agent=None, days=1
    )
    assert sessions.resolve(database, token) is not None
    assert _row(database, made).used_by == "dora@example.org"
    assert [entry.action for entry in audited(database)][-3:] == ["invite.created", "member.joined", "member.signed_in"]
    assert all(made.token not in str(entry.details) for entry in audited(database))


def test_tenant_of_ones_own_is_made_when_the_link_is_for_a_new_one(database: Database, alice: Principal) -> None:
    with pytest.raises(Forbidden), database.transaction() as session:
        invites.invite_tenant(session, alice, InviteTerms())
    with database.transaction() as session:
        made = invites.invite_tenant(session, replace(alice, is_admin=True), InviteTerms(Role.MEMBER))
    assert joining.offer_of(database, made.token, address=None).tenant_name is None
    with pytest.raises(Conflict) as refusal:
        _join(database, made.token, tenant_name="Alpha")
    assert refusal.value.code == "tenant_name_taken"
    dora = _join(database, made.token, tenant_name="Delta")
    assert (dora.tenant_name, dora.role) == ("Delta", Role.OWNER)
    assert dora.tenant_id != alice.tenant_id
    with database.reading() as session:
        assert session.get_one(Tenant, dora.tenant_id).time_zone == "Asia/Tokyo"


def test_one_wins_when_two_use_one_link_at_once(database: Database, alice: Principal) -> None:
    made = _invite(database, alice)
    results = at_once(6, lambda number: _join(database, made.token, f"guest{number}@example.org"))
    winners = [result for result in results if isinstance(result, Principal)]
    losers = [result.code for result in results if isinstance(result, PortalError)]
    assert (len(winners), losers) == (1, ["invite_invalid"] * 5)
    with database.reading() as session:
        emails = set(session.scalars(select(Member.email).where(Member.tenant_id == alice.tenant_id)))
    assert emails == {"alice@example.org", winners[0].email}


def test_link_stays_good_when_the_guest_was_refused(database: Database, alice: Principal, charlie: Principal) -> None:
    made = _invite(database, alice)
    for email, password, code in (
        ("charlie@example.org", PASSWORD, "email_taken"),
        ("dora", PASSWORD, "email_invalid"),
        ("dora@example.org", "short", "password_too_short"),
    ):
        with pytest.raises(PortalError) as refusal:
            joining.join(database, made.token, Newcomer(email, password), time_zone="UTC")
        assert refusal.value.code == code
        assert _row(database, made).used_at is None
    assert _join(database, made.token).tenant_id == alice.tenant_id
    assert _refusal(database, made.token) == "invite_invalid"


def test_link_opens_nothing_when_it_is_over(database: Database, alice: Principal) -> None:
    revoked, expired = _invite(database, alice), _invite(database, alice)
    with database.transaction() as session:
        assert len(invites.list_open(session, alice.tenant_id)) == 2
        invites.revoke_invite(session, alice, revoked.view.id)
        session.execute(update(Invite).where(Invite.id == expired.view.id).values(expires_at=now()))
    assert {_refusal(database, made.token) for made in (revoked, expired)} == {"invite_invalid"}
    for token in ("", "x" * 5000, "\0", "\udc80"):
        assert _refusal(database, token) == "invite_invalid"
    with database.transaction() as session:
        assert invites.list_open(session, alice.tenant_id) == []
        with pytest.raises(NotFound):
            invites.revoke_invite(session, alice, revoked.view.id)


def test_guesses_are_throttled_when_an_address_makes_many(database: Database, alice: Principal) -> None:
    made = _invite(database, alice)
    for _ in range(throttle.MAX_INVITE_FAILURES):
        with pytest.raises(NotFound):
            joining.offer_of(database, "guess", address=ADDRESS)
    with pytest.raises(TooManyAttempts):
        joining.offer_of(database, made.token, address=ADDRESS)
    assert joining.offer_of(database, made.token, address="198.51.100.1").tenant_name == "Alpha"


def test_only_the_tenants_owner_invites_and_revokes(
    database: Database, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    made = _invite(database, alice)
    with pytest.raises(Forbidden) as refusal:
        _invite(database, bob)
    assert refusal.value.code == "members_not_allowed"
    for person, kind in ((bob, Forbidden), (charlie, NotFound)):
        with pytest.raises(kind), database.transaction() as session:
            invites.revoke_invite(session, person, made.view.id)
    with database.reading() as session:
        assert invites.list_open(session, charlie.tenant_id) == []
    assert _row(database, made).revoked_at is None


@pytest.mark.parametrize(
    ("terms", "code"),
    [
        (InviteTerms(days=0), "invite_days"),
        (InviteTerms(days=91), "invite_days"),
        (InviteTerms(note="x" * 101), "invite_note"),
        (InviteTerms(note="a\0b"), "invite_note"),
    ],
)
def test_invite_is_refused_when_its_terms_are_wrong(
    database: Database, alice: Principal, terms: InviteTerms, code: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        _invite(database, alice, terms)
    assert refusal.value.code == code


def test_invites_are_bounded(database: Database, alice: Principal, charlie: Principal) -> None:
    for _ in range(invites.MAX_OPEN):
        with database.transaction() as session:
            invites.create(session, alice.tenant_id, InviteTerms(), actor="operator")
    with pytest.raises(Conflict) as refusal:
        _invite(database, alice)
    assert refusal.value.code == "too_many_invites"
    assert _invite(database, charlie).view.tenant_id == charlie.tenant_id


@pytest.mark.parametrize("end", ["removed", "demoted"])
def test_links_end_when_the_owner_who_made_them_is_one_no_longer(
    database: Database, alice: Principal, bob: Principal, end: str
) -> None:
    with database.transaction() as session:
        change_role(session, alice, bob.member_id or "", Role.OWNER)
    kept, made = _invite(database, alice), _invite(database, replace(bob, role=Role.OWNER))
    with database.transaction() as session:
        if end == "removed":
            remove_member(session, alice, bob.member_id or "")
        else:
            change_role(session, alice, bob.member_id or "", Role.MEMBER)
    assert _refusal(database, made.token) == "invite_invalid"
    assert joining.offer_of(database, kept.token, address=None).tenant_name == "Alpha"


@pytest.mark.parametrize(("end", "code"), [("suspended", "tenant_not_open"), ("deleted", "invite_invalid")])
def test_nobody_joins_when_the_tenant_is_shut_while_the_password_is_hashed(
    database: Database, alice: Principal, monkeypatch: pytest.MonkeyPatch, end: str, code: str
) -> None:
    made, hashed = _invite(database, alice), joining.passwords.hashed

    def shut(password: str) -> str:
        with database.transaction() as session:
            if end == "suspended":
                session.execute(update(Tenant).where(Tenant.id == alice.tenant_id).values(state="suspended"))
            else:
                for row in (Invite, Member):
                    session.execute(delete(row).where(row.tenant_id == alice.tenant_id))
                session.execute(delete(Tenant).where(Tenant.id == alice.tenant_id))
        return hashed(password)

    monkeypatch.setattr(joining.passwords, "hashed", shut)
    with pytest.raises(PortalError) as refusal:
        _join(database, made.token)
    assert refusal.value.code == code
    with database.reading() as session:
        assert session.scalars(select(Member).where(Member.email == "dora@example.org")).all() == []
        assert session.scalars(select(Invite.used_at)).all() == ([None] if end == "suspended" else [])


def test_nobody_joins_when_the_tenant_is_suspended(database: Database, alice: Principal) -> None:
    made = _invite(database, alice)
    with database.transaction() as session:
        session.execute(update(Tenant).where(Tenant.id == alice.tenant_id).values(state="suspended"))
    assert _refusal(database, made.token) == "tenant_not_open"
    with database.transaction() as session:
        session.execute(update(Tenant).where(Tenant.id == alice.tenant_id).values(state="active"))
    assert _join(database, made.token).tenant_id == alice.tenant_id
