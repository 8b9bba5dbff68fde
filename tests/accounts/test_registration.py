from __future__ import annotations

from dataclasses import replace

import pytest

from portal import settings
from portal.accounts.registration import RegistrationMode, registration_mode, set_registration_mode
from portal.db import Database
from portal.domain import Principal
from portal.errors import Conflict, Forbidden
from tests.accounts import audited


def _mode(database: Database) -> tuple[RegistrationMode, bool]:
    with database.reading() as session:
        return registration_mode(session, settings.load())


def _choose(database: Database, principal: Principal, mode: RegistrationMode) -> None:
    with database.transaction() as session:
        set_registration_mode(session, settings.load(), principal, mode)


def test_the_admins_choice_holds_when_the_environment_says_nothing(database: Database, alice: Principal) -> None:
    assert _mode(database) == (RegistrationMode.OPEN, False)
    with pytest.raises(Forbidden):
        _choose(database, alice, RegistrationMode.CLOSED)
    for mode in (RegistrationMode.INVITE, RegistrationMode.CLOSED):
        _choose(database, replace(alice, is_admin=True), mode)
        assert _mode(database) == (mode, False)
    changes = [entry for entry in audited(database) if entry.action == "portal.registration_changed"]
    assert [(entry.before, entry.after) for entry in changes] == [
        ({"mode": "open"}, {"mode": "invite"}),
        ({"mode": "invite"}, {"mode": "closed"}),
    ]


def test_the_environment_holds_when_it_fixes_the_mode(
    database: Database, alice: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    _choose(database, replace(alice, is_admin=True), RegistrationMode.CLOSED)
    monkeypatch.setenv("PORTAL_REGISTRATION", "invite")
    assert _mode(database) == (RegistrationMode.INVITE, True)
    with pytest.raises(Conflict) as refusal:
        _choose(database, replace(alice, is_admin=True), RegistrationMode.OPEN)
    assert refusal.value.code == "registration_fixed"
