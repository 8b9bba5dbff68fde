from __future__ import annotations

import json
import threading
import time
from datetime import timedelta

import pytest
from passlib.context import CryptContext
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from models import Member, SignInFailures, SignInSession
from models.base import now
from portal.accounts import passwords, sessions, tenants
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.errors import InvalidRequest, PortalError, TooManyAttempts, Unauthenticated
from tests.accounts import PASSWORD, at_once, audited

ADDRESS = "203.0.113.7"
NEW_PASSWORD = "eight blue kettles"


def _sign_in(
    database: Database, email: str = "alice@example.org", password: str = PASSWORD, address: str = ADDRESS
) -> str:
    return sessions.sign_in(database, email=email, password=password, address=address, user_agent="A browser", days=14)


def _sessions(database: Database) -> list[SignInSession]:
    with database.reading() as session:
        return list(session.scalars(select(SignInSession)))


def _age(database: Database, by: timedelta) -> None:
    """Moves every session into the past as if nobody had used it for so long."""
    with database.transaction() as session:
        for row in session.scalars(select(SignInSession)):
            row.created_at, row.last_seen_at, row.expires_at = (
                moment - by for moment in (row.created_at, row.last_seen_at, row.expires_at)
            )


def test_member_is_proven_when_the_password_is_right(database: Database, alice: Principal) -> None:
    signed_in = sessions.resolve(database, _sign_in(database, " Alice@Example.ORG "), address=ADDRESS)
    assert signed_in is not None
    assert signed_in.principal.tenant_id == alice.tenant_id
    assert signed_in.principal.email == "alice@example.org"
    assert signed_in.principal.role is Role.OWNER
    assert not signed_in.principal.is_admin
    assert Scope.ADMIN not in signed_in.principal.scopes
    assert signed_in.principal.address == ADDRESS
    assert timedelta(days=13) < signed_in.expires_at - now() <= timedelta(days=14)


def test_each_persona_is_itself_when_signed_in(
    database: Database, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    for person in (alice, bob, charlie):
        assert person.email is not None
        signed_in = sessions.resolve(database, _sign_in(database, person.email))
        assert signed_in is not None
        assert signed_in.principal == person


def test_only_a_hash_is_stored_when_somebody_signs_in(database: Database, alice: Principal) -> None:
    token = _sign_in(database)
    (row,) = _sessions(database)
    assert len(token) >= 43
    assert token not in (row.token_hash, row.user_agent, row.address)
    assert (row.tenant_id, row.member_id) == (alice.tenant_id, alice.member_id)


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("alice@example.org", "wrong password"),
        ("nobody@example.org", PASSWORD),
        ("not an e-mail\0", PASSWORD),
        ("", ""),
    ],
)
def test_refusals_are_alike_when_account_or_password_is_wrong(
    database: Database, alice: Principal, email: str, password: str
) -> None:
    with pytest.raises(Unauthenticated) as refusal:
        _sign_in(database, email, password)
    assert refusal.value.code == "sign_in_failed"
    assert refusal.value.message == "The e-mail or the password is wrong."
    assert _sessions(database) == []
    (entry,) = [entry for entry in audited(database) if entry.action == "member.sign_in_failed"]
    assert entry.actor == ("alice@example.org" if email.startswith("alice") else "unknown account")


def test_sixth_try_is_refused_when_five_failed_and_even_the_right_password(
    database: Database, alice: Principal
) -> None:
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            _sign_in(database, password="wrong password")
    with pytest.raises(TooManyAttempts):
        _sign_in(database, address="198.51.100.1")
    assert _sessions(database) == []


def test_unknown_account_is_throttled_the_same_when_it_fails(database: Database) -> None:
    for number in range(5):
        with pytest.raises(Unauthenticated):
            _sign_in(database, "nobody@example.org", address=f"203.0.113.{number}")
    with pytest.raises(TooManyAttempts):
        _sign_in(database, "nobody@example.org", address="198.51.100.1")


def test_five_guesses_are_tried_when_twenty_come_at_once(database: Database, alice: Principal) -> None:
    results = at_once(20, lambda number: _sign_in(database, password="wrong", address=f"198.51.100.{number}"))
    kinds = [type(result) for result in results]
    assert kinds.count(Unauthenticated) == 5
    assert kinds.count(TooManyAttempts) == 15


def test_throttle_is_cleared_when_the_right_password_comes_in_time(database: Database, alice: Principal) -> None:
    for _ in range(4):
        with pytest.raises(Unauthenticated):
            _sign_in(database, password="wrong password")
    _sign_in(database)
    with database.reading() as session:
        assert list(session.scalars(select(SignInFailures.failures))) == [0]


def test_outdated_hash_is_replaced_when_its_member_signs_in(database: Database, alice: Principal) -> None:
    weak = CryptContext(
        schemes=["argon2"], argon2__type="ID", argon2__memory_cost=1024, argon2__time_cost=1, argon2__parallelism=1
    )
    with database.transaction() as session:
        session.execute(update(Member).values(password_hash=weak.hash(PASSWORD)))
    _sign_in(database)
    with database.reading() as session:
        stored = session.scalars(select(Member.password_hash)).one()
    assert "m=19456,t=2,p=1" in stored
    assert passwords.verify(PASSWORD, stored).is_right


@pytest.mark.parametrize("token", ["", "unknown", "\ud800", "x" * 5000])
def test_nobody_is_proven_when_the_token_is_unknown(database: Database, alice: Principal, token: str) -> None:
    _sign_in(database)
    assert sessions.resolve(database, token) is None


def test_session_slides_when_used_after_a_while_but_not_at_each_use(database: Database, alice: Principal) -> None:
    token = _sign_in(database)
    (before,) = _sessions(database)
    sessions.resolve(database, token)
    assert _sessions(database)[0].last_seen_at == before.last_seen_at
    _age(database, timedelta(days=10))
    signed_in = sessions.resolve(database, token)
    assert signed_in is not None
    assert signed_in.expires_at - now() > timedelta(days=13)
    (after,) = _sessions(database)
    assert after.expires_at == signed_in.expires_at


def test_session_ends_when_it_was_not_used_for_its_length(database: Database, alice: Principal) -> None:
    token = _sign_in(database)
    _age(database, timedelta(days=14, seconds=1))
    assert sessions.resolve(database, token) is None
    _sign_in(database)
    assert len(_sessions(database)) == 1


def test_session_ends_everywhere_when_signed_out(database: Database, alice: Principal) -> None:
    token, other = _sign_in(database), _sign_in(database)
    sessions.sign_out(database, token)
    sessions.sign_out(database, token)
    assert sessions.resolve(database, token) is None
    assert sessions.resolve(database, other) is not None
    assert [entry.action for entry in audited(database)].count("member.signed_out") == 1


def test_other_browsers_of_the_member_alone_are_signed_out(
    database: Database, alice: Principal, bob: Principal, charlie: Principal
) -> None:
    here, there = _sign_in(database), _sign_in(database)
    colleague, stranger = _sign_in(database, "bob@example.org"), _sign_in(database, "charlie@example.org")
    assert sessions.count_others(database, alice, here) == 1
    assert sessions.sign_out_others(database, alice, here) == 1
    assert sessions.resolve(database, there) is None
    assert all(sessions.resolve(database, token) for token in (here, colleague, stranger))


def test_other_sessions_end_when_the_password_is_changed(database: Database, alice: Principal, bob: Principal) -> None:
    here, there, colleague = _sign_in(database), _sign_in(database), _sign_in(database, "bob@example.org")
    sessions.change_password(database, alice, here, current_password=PASSWORD, new_password=NEW_PASSWORD)
    assert sessions.resolve(database, here) is not None
    assert sessions.resolve(database, there) is None
    assert sessions.resolve(database, colleague) is not None
    with pytest.raises(Unauthenticated):
        _sign_in(database)
    _sign_in(database, password=NEW_PASSWORD)


@pytest.mark.parametrize(
    ("current", "new", "error", "code"),
    [
        ("wrong password", NEW_PASSWORD, Unauthenticated, "current_password_wrong"),
        (PASSWORD, "short", InvalidRequest, "password_too_short"),
        (PASSWORD, "alice@example.org", InvalidRequest, "password_is_email"),
        (PASSWORD, PASSWORD, InvalidRequest, "password_unchanged"),
    ],
)
def test_password_stays_when_its_change_is_refused(
    database: Database, alice: Principal, current: str, new: str, error: type[PortalError], code: str
) -> None:
    here, there = _sign_in(database), _sign_in(database)
    with pytest.raises(error) as refusal:
        sessions.change_password(database, alice, here, current_password=current, new_password=new)
    assert refusal.value.code == code
    assert sessions.resolve(database, there) is not None
    _sign_in(database)


def test_guesses_are_throttled_when_made_through_the_password_change(database: Database, alice: Principal) -> None:
    here = _sign_in(database)
    refusals = []
    for _ in range(6):
        with pytest.raises(PortalError) as refusal:
            sessions.change_password(
                database, alice, here, current_password="wrong password", new_password=NEW_PASSWORD
            )
        refusals.append(type(refusal.value))
    assert refusals == [Unauthenticated] * 5 + [TooManyAttempts]


def test_member_can_change_the_password_when_others_failed_from_the_same_address(
    database: Database, alice: Principal
) -> None:
    here = _sign_in(database)
    for number in range(5):
        with pytest.raises(Unauthenticated):
            _sign_in(database, f"m{number}@example.org")
    signed_in = sessions.resolve(database, here, address=ADDRESS)
    assert signed_in is not None
    sessions.change_password(database, signed_in.principal, here, current_password=PASSWORD, new_password=NEW_PASSWORD)
    _sign_in(database, password=NEW_PASSWORD, address="198.51.100.1")


def test_member_can_change_the_password_while_strangers_lock_the_account(database: Database, alice: Principal) -> None:
    here = _sign_in(database)
    for number in range(6):
        with pytest.raises((Unauthenticated, TooManyAttempts)):
            _sign_in(database, password="wrong password", address=f"198.51.100.{number}")
    signed_in = sessions.resolve(database, here, address=ADDRESS)
    assert signed_in is not None
    sessions.change_password(database, signed_in.principal, here, current_password=PASSWORD, new_password=NEW_PASSWORD)


def test_one_change_wins_when_two_come_at_once(database: Database, alice: Principal) -> None:
    here = _sign_in(database)

    def change(number: int) -> None:
        sessions.change_password(
            database, alice, here, current_password=PASSWORD, new_password=f"{NEW_PASSWORD} {number}"
        )

    results = at_once(3, change)
    assert results.count(None) == 1
    winner = results.index(None)
    _sign_in(database, password=f"{NEW_PASSWORD} {winner}")


def test_no_session_survives_when_a_reset_comes_between_check_and_opening(
    database: Database, alice: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified, was_reset = threading.Event(), threading.Event()
    verify = passwords.verify

    def slow_verify(password: str, stored_hash: str | None) -> passwords.Verdict:
        verdict = verify(password, stored_hash)
        verified.set()
        was_reset.wait(10)
        return verdict

    monkeypatch.setattr(passwords, "verify", slow_verify)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.extend(at_once(1, lambda _: _sign_in(database))))
    thread.start()
    assert verified.wait(10)
    tenants.reset_password(database, "alice@example.org")
    was_reset.set()
    thread.join(10)
    assert isinstance(results[0], Unauthenticated)
    assert _sessions(database) == []


def test_no_secret_is_recorded_when_people_sign_in_and_fail(
    database: Database, alice: Principal, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    token = _sign_in(database)
    secrets = [PASSWORD, NEW_PASSWORD, token, "my-secret-typed-as-email"]
    errors = []
    for email, password in (("alice@example.org", NEW_PASSWORD), ("my-secret-typed-as-email", PASSWORD)):
        with pytest.raises(Unauthenticated) as refusal:
            _sign_in(database, email, password)
        errors.append(repr(refusal.value) + refusal.value.remedy)
    sessions.change_password(database, alice, token, current_password=PASSWORD, new_password=NEW_PASSWORD)
    recorded = [json.dumps([entry.actor, entry.action, entry.target, entry.details]) for entry in audited(database)]
    assert {entry.action for entry in audited(database)} >= {
        "member.signed_in",
        "member.sign_in_failed",
        "member.password_changed",
    }
    for secret in secrets:
        assert secret not in caplog.text + "".join(recorded) + "".join(errors)


def test_nothing_is_recorded_when_the_transaction_fails(
    database: Database, alice: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_hash", lambda _token: "the same for all")
    _sign_in(database)
    before = [entry.id for entry in audited(database)]
    with pytest.raises(IntegrityError) as failure:
        _sign_in(database)
    assert ADDRESS not in str(failure.value)
    assert [entry.id for entry in audited(database)] == before


def test_sign_in_of_an_unknown_account_takes_as_long(sqlite_database: Database) -> None:
    tenants.register(
        sqlite_database,
        "open",
        tenant_name="Alpha",
        email="a@example.org",
        password=PASSWORD,
        address=None,
        time_zone="UTC",
    )

    def seconds(email: str) -> float:
        start = time.process_time()
        with pytest.raises(Unauthenticated):
            sessions.sign_in(sqlite_database, email=email, password="wrong one", address=None, user_agent=None, days=1)
        return time.process_time() - start

    seconds("warm@example.org")
    known, unknown = min(seconds("a@example.org") for _ in range(4)), min(seconds("b@example.org") for _ in range(4))
    assert 0.5 < known / unknown < 2
