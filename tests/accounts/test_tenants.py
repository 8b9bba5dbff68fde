from __future__ import annotations

import json

import pytest
from sqlalchemy import func, select

from models import Member, Tenant
from portal.accounts import sessions, tenants, throttle
from portal.accounts.registration import RegistrationMode
from portal.db import Database
from portal.domain import Principal, Role, Scope
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound, PortalError, SettingsError, TooManyAttempts
from portal.settings import Settings, load
from tests.accounts import PASSWORD, at_once, audited


def _register(
    database: Database,
    tenant_name: str = "Alpha",
    email: str = "alice@example.org",
    *,
    password: str = PASSWORD,
    address: str | None = None,
) -> Principal:
    return tenants.register(
        database, "open", tenant_name=tenant_name, email=email, password=password, address=address, time_zone="UTC"
    )


def _counts(database: Database) -> tuple[int, int]:
    with database.reading() as session:
        return (
            session.scalar(select(func.count()).select_from(Tenant)) or 0,
            session.scalar(select(func.count()).select_from(Member)) or 0,
        )


def _sign_in(database: Database, email: str, password: str) -> str:
    return sessions.sign_in(database, email=email, password=password, address="203.0.113.7", user_agent=None, days=1)


def _settings(monkeypatch: pytest.MonkeyPatch, email: str | None = None, password: str | None = None) -> Settings:
    for name, value in (("PORTAL_ADMIN_EMAIL", email), ("PORTAL_ADMIN_PASSWORD", password)):
        if value is not None:
            monkeypatch.setenv(name, value)
    return load()


def test_owner_can_sign_in_when_registered(database: Database) -> None:
    principal = _register(database, "  Alpha   GmbH ", "Alice@Example.ORG")
    assert principal.tenant_name == "Alpha GmbH"
    assert principal.email == "alice@example.org"
    assert principal.role is Role.OWNER
    assert Scope.ADMIN not in principal.scopes
    signed_in = sessions.resolve(database, _sign_in(database, "alice@example.org", PASSWORD))
    assert signed_in is not None
    assert signed_in.principal.tenant_id == principal.tenant_id
    (entry, _) = audited(database)
    assert (entry.action, entry.actor, entry.tenant_id) == (
        "tenant.created",
        "alice@example.org",
        principal.tenant_id,
    )


@pytest.mark.parametrize(
    ("tenant_name", "email", "password", "code"),
    [
        ("A", "alice@example.org", PASSWORD, "tenant_name_invalid"),
        ("x" * 101, "alice@example.org", PASSWORD, "tenant_name_invalid"),
        ("bell\a name", "alice@example.org", PASSWORD, "tenant_name_invalid"),
        ("zero\u200bwidth", "alice@example.org", PASSWORD, "tenant_name_invalid"),
        (" Admin ", "alice@example.org", PASSWORD, "tenant_name_reserved"),
        ("ＡＤＭＩＮ", "alice@example.org", PASSWORD, "tenant_name_reserved"),
        ("аdmin", "alice@example.org", PASSWORD, "tenant_name_reserved"),
        ("АDMIN", "alice@example.org", PASSWORD, "tenant_name_reserved"),
        ("admіn", "alice@example.org", PASSWORD, "tenant_name_reserved"),
        ("аԁміп", "alice@example.org", PASSWORD, "tenant_name_reserved"),
        ("Аlpha GmbH", "alice@example.org", PASSWORD, "tenant_name_invalid"),
        ("Team Αlpha", "alice@example.org", PASSWORD, "tenant_name_invalid"),
        ("Alpha", "alice", PASSWORD, "email_invalid"),
        ("Alpha", "alice@example", PASSWORD, "email_invalid"),
        ("Alpha", "a b@example.org", PASSWORD, "email_invalid"),
        ("Alpha", "a@example..org", PASSWORD, "email_invalid"),
        ("Alpha", "a@-example.org", PASSWORD, "email_invalid"),
        ("Alpha", "a\0@example.org", PASSWORD, "email_invalid"),
        ("Alpha", "a@" + "x" * 250 + ".org", PASSWORD, "email_invalid"),
        ("Alpha", "alice@example.org", "short", "password_too_short"),
        ("Alpha", "alice@example.org", "ALICE@example.org", "password_is_email"),
    ],
)
def test_nothing_is_stored_when_a_field_is_refused(
    database: Database, tenant_name: str, email: str, password: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        _register(database, tenant_name, email, password=password)
    assert refusal.value.code == code
    assert _counts(database) == (0, 0)


@pytest.mark.parametrize("name", ["Альфа GmbH", "Ελλάς", "α-Team", "山田 Co", "Müller & Søn", "Administration"])
def test_name_is_taken_when_each_word_is_of_one_alphabet(database: Database, name: str) -> None:
    assert _register(database, name).tenant_name == name


@pytest.mark.parametrize("email", ["a@localhost", "first.last+tag@sub.example.org", "søren@blåbær.dk", "o'neil@x.ie"])
def test_email_is_taken_when_its_shape_is_plausible(database: Database, email: str) -> None:
    assert _register(database, email=email).email == email


@pytest.mark.parametrize("name", ["ACME  GMBH", "acme gmbh", "Ａcme ＧmbH"])
def test_name_is_refused_when_it_differs_by_case_only(database: Database, name: str) -> None:
    _register(database, "Acme GmbH")
    with pytest.raises(Conflict) as refusal:
        _register(database, name, "other@acme.example")
    assert refusal.value.code == "tenant_name_taken"
    with database.reading() as session:
        assert session.scalars(select(Tenant.name)).all() == ["Acme GmbH"]


def test_name_or_email_is_refused_when_taken(database: Database) -> None:
    _register(database)
    with pytest.raises(Conflict) as refusal:
        _register(database, "Alpha", "bob@example.org")
    assert refusal.value.code == "tenant_name_taken"
    with pytest.raises(Conflict) as refusal:
        _register(database, "Beta", "ALICE@example.org")
    assert refusal.value.code == "email_taken"
    assert _counts(database) == (1, 1)


@pytest.mark.parametrize(
    ("mode", "code"),
    [(RegistrationMode.CLOSED, "registration_closed"), (RegistrationMode.INVITE, "invite_needed")],
)
def test_sign_up_is_refused_when_registration_is_not_open(
    database: Database, mode: RegistrationMode, code: str
) -> None:
    with pytest.raises(Forbidden) as refusal:
        tenants.register(
            database,
            mode,
            tenant_name="Alpha",
            email="alice@example.org",
            password=PASSWORD,
            address=None,
            time_zone="UTC",
        )
    assert refusal.value.code == code
    assert _counts(database) == (0, 0)


def test_one_tenant_is_made_when_twenty_sign_up_with_its_name_at_once(database: Database) -> None:
    results = at_once(20, lambda number: _register(database, "Alpha", f"m{number}@example.org"))
    assert sum(isinstance(result, Principal) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 19
    assert _counts(database) == (1, 1)


def test_one_member_is_made_when_twenty_sign_up_with_its_email_at_once(database: Database) -> None:
    results = at_once(20, lambda number: _register(database, f"Tenant {number}", "alice@example.org"))
    assert sum(isinstance(result, Principal) for result in results) == 1
    assert all(result.code == "email_taken" for result in results if isinstance(result, PortalError))
    assert _counts(database) == (1, 1)


def test_sign_up_is_throttled_when_one_address_signs_up_again_and_again(database: Database) -> None:
    _register(database)
    for _ in range(throttle.MAX_SIGN_UPS - 1):
        with database.transaction() as session:
            throttle.begin_sign_up(session, "203.0.113.7")
    with pytest.raises(Conflict):
        _register(database, address="203.0.113.7")
    with pytest.raises(TooManyAttempts):
        _register(database, "Beta", "beta@example.org", address="203.0.113.7")
    _register(database, "Beta", "beta@example.org", address="198.51.100.1")


def test_admin_gets_a_one_time_password_when_none_is_set(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings(monkeypatch)
    password = tenants.ensure_admin(database, settings)
    assert password is not None
    assert tenants.ensure_admin(database, settings) is None
    signed_in = sessions.resolve(database, _sign_in(database, "admin@localhost", password))
    assert signed_in is not None
    assert signed_in.principal.is_admin
    assert signed_in.principal.tenant_name == "admin"
    assert Scope.ADMIN in signed_in.principal.scopes
    assert password not in json.dumps([[entry.target, entry.details] for entry in audited(database)])


def test_admin_comes_from_the_settings_when_they_are_set(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tenants.ensure_admin(database, _settings(monkeypatch, "Root@Example.org", PASSWORD)) is None
    _sign_in(database, "root@example.org", PASSWORD)
    assert tenants.ensure_admin(database, _settings(monkeypatch, "other@example.org", "another password")) is None
    assert _counts(database) == (1, 1)


def test_one_admin_is_made_when_processes_start_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings(monkeypatch)
    results = at_once(6, lambda _: tenants.ensure_admin(database, settings))
    (password,) = [result for result in results if result is not None]
    assert isinstance(password, str)
    assert _counts(database) == (1, 1)
    _sign_in(database, "admin@localhost", password)


@pytest.mark.parametrize(("email", "password"), [("nonsense", None), (None, "short")])
def test_start_is_refused_when_the_admin_settings_are_wrong(
    database: Database, monkeypatch: pytest.MonkeyPatch, email: str | None, password: str | None
) -> None:
    with pytest.raises(SettingsError) as refusal:
        tenants.ensure_admin(database, _settings(monkeypatch, email, password))
    assert "PORTAL_ADMIN_" in refusal.value.message
    assert _counts(database) == (0, 0)


def test_old_password_and_sessions_end_when_reset(database: Database) -> None:
    _register(database)
    token = _sign_in(database, "alice@example.org", PASSWORD)
    for _ in range(5):
        with pytest.raises(PortalError):
            _sign_in(database, "alice@example.org", "wrong password")
    password = tenants.reset_password(database, "Alice@example.org")
    assert sessions.resolve(database, token) is None
    sessions.sign_in(database, email="alice@example.org", password=password, address=None, user_agent=None, days=1)
    (entry,) = [entry for entry in audited(database) if entry.action == "member.password_reset"]
    assert entry.actor == "operator"
    assert password not in json.dumps(entry.details)


def test_reset_is_refused_when_the_email_is_unknown_or_the_password_weak(database: Database) -> None:
    _register(database)
    with pytest.raises(NotFound):
        tenants.reset_password(database, "nobody@example.org")
    with pytest.raises(InvalidRequest):
        tenants.reset_password(database, "alice@example.org", password="short")
    _sign_in(database, "alice@example.org", PASSWORD)
