from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select
from typer.testing import CliRunner, Result

from models import ApiKey, AuditEntry, Tenant, TenantLimit, TenantUsage
from models.base import now
from portal import schema, settings
from portal.accounts import joining, key_proof, sessions
from portal.accounts.peppers import Peppers
from portal.admin_commands import admin
from portal.db import Database
from portal.domain import Scope
from portal.errors import Unauthenticated
from portal.usage.limits import DEFAULT_LIMITS, terms_of

PASSWORD = "seven green kettles"


@pytest.fixture
def portal_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The database that the commands find through the environment; nothing is in it, not even tables."""
    monkeypatch.setenv("PORTAL_DATA_DIR", str(tmp_path / "data"))
    return Database(settings.load().database_url)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(admin, list(arguments))


def _create_alpha() -> None:
    result = _run("create-tenant", "--name", "Alpha", "--email", "alice@example.org", "--password", PASSWORD)
    assert result.exit_code == 0, result.stderr


def _sign_in(database: Database, password: str) -> str:
    return sessions.sign_in(
        database, email="alice@example.org", password=password, address=None, user_agent=None, days=1
    )


def test_owner_can_sign_in_when_a_tenant_is_made_on_an_empty_database(portal_database: Database) -> None:
    result = _run("create-tenant", "--name", "Alpha", "--email", "alice@example.org")
    assert result.exit_code == 0, result.stderr
    password = result.stdout.strip()
    assert password not in result.stderr
    _sign_in(portal_database, password)
    assert schema.is_current(portal_database)


def test_given_password_is_not_printed_when_a_tenant_is_made(portal_database: Database) -> None:
    result = _run("create-tenant", "--name", "Alpha", "--email", "alice@example.org", "--password", PASSWORD)
    assert PASSWORD not in result.output
    _sign_in(portal_database, PASSWORD)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create-tenant", "--name", "Alpha", "--email", "b@example.org"), "exists"),
        (("create-tenant", "--name", "Beta", "--email", "alice@example.org"), "has an account"),
        (("create-tenant", "--name", "admin", "--email", "b@example.org"), "reserved"),
        (("create-tenant", "--name", "Beta", "--email", "b@example.org", "--password", "short"), "at least 8"),
        (("create-key", "--tenant", "Nobody", "--scopes", "ocr"), "list-tenants"),
        (("create-key", "--tenant", "Alpha", "--scopes", "root"), "Choose from: ocr"),
        (("create-key", "--tenant", "Alpha", "--scopes", "admin"), "admin"),
        (("revoke-key", "--tenant", "Alpha", "--key", "ocr_nothing"), "list-keys"),
        (("rotate-key", "--tenant", "Alpha", "--key", "ocr_nothing"), "list-keys"),
        (("rotate-key", "--tenant", "Alpha", "--key", "ocr_nothing", "--overlap", "2d"), "overlap"),
        (("reset-password", "--email", "nobody@example.org"), "Check the spelling"),
        (("set-quota", "--tenant", "Nobody", "--weight", "1"), "list-tenants"),
        (("set-quota", "--tenant", "Alpha", "--reason", "why not"), "--pages-per-day"),
        (("set-quota", "--tenant", "Alpha", "--pages-per-day", "1.5"), "whole number"),
        (("set-quota", "--tenant", "Alpha", "--weight", "none"), "from 0.01 to 100"),
        (("set-quota", "--tenant", "Alpha", "--weight", "1e-310"), "from 0.01 to 100"),
        (("set-quota", "--tenant", "Alpha", "--weight", "2", "--until", "soon"), "2026-12-24"),
        (("set-plan", "--tenant", "Alpha", "--plan", "nothing"), "list-plans"),
        (("create-plan", "--name", "x", "--weight", "plan"), "Give a number"),
    ],
)
def test_refusal_is_said_with_its_remedy_when_a_command_cannot_be_done(
    portal_database: Database, arguments: tuple[str, ...], words: str
) -> None:
    _create_alpha()
    result = _run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""
    with portal_database.reading() as session:
        assert session.scalars(select(Tenant.name)).all() == ["Alpha"]
        assert session.scalars(select(ApiKey)).all() == []


def test_key_alone_is_on_stdout_and_works_when_made(portal_database: Database) -> None:
    _create_alpha()
    result = _run("create-key", "--tenant", "Alpha", "--scopes", "ocr, read", "--name", "CI", "--expires-days", "30")
    assert result.exit_code == 0, result.stderr
    key = result.stdout.strip()
    assert key not in result.stderr
    principal = key_proof.authenticate(portal_database, Peppers.load(settings.load()), key, address=None)
    assert principal.tenant_name == "Alpha"
    assert principal.email == "alice@example.org"
    assert principal.scopes == {Scope.OCR, Scope.READ}
    with portal_database.reading() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "api_key.created")).one()
    assert entry.actor == "operator"


@pytest.mark.parametrize("by", ["id", "prefix"])
def test_key_ends_when_revoked_by_id_or_prefix(portal_database: Database, by: str) -> None:
    _create_alpha()
    key = _run("create-key", "--tenant", "Alpha", "--scopes", "ocr").stdout.strip()
    with portal_database.reading() as session:
        row = session.scalars(select(ApiKey)).one()
    assert row.prefix in _run("list-keys", "--tenant", "Alpha").stdout
    result = _run("revoke-key", "--tenant", "Alpha", "--key", str(getattr(row, by)))
    assert result.exit_code == 0, result.stderr
    assert "revoked" in _run("list-keys", "--tenant", "Alpha").stdout
    with pytest.raises(Unauthenticated):
        key_proof.authenticate(portal_database, Peppers.load(settings.load()), key, address=None)


def test_new_key_alone_is_on_stdout_when_one_is_rotated(portal_database: Database) -> None:
    _create_alpha()
    old = _run("create-key", "--tenant", "Alpha", "--scopes", "ocr", "--name", "CI").stdout.strip()
    result = _run("rotate-key", "--tenant", "Alpha", "--key", old.rpartition("_")[0], "--overlap", "1h")
    assert result.exit_code == 0, result.stderr
    new = result.stdout.strip()
    assert new not in result.stderr
    for key in (old, new):
        key_proof.authenticate(portal_database, Peppers.load(settings.load()), key, address=None)
    listed = _run("list-keys", "--tenant", "Alpha").stdout
    assert listed.count("  CI  ") == 2
    assert "replaced, until" in listed
    with portal_database.reading() as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "api_key.rotated")).one()
    assert entry.actor == "operator"


def test_another_tenants_key_stays_when_named(portal_database: Database) -> None:
    _create_alpha()
    _run("create-tenant", "--name", "Gamma", "--email", "charlie@example.org", "--password", PASSWORD)
    _run("create-key", "--tenant", "Alpha", "--scopes", "ocr")
    with portal_database.reading() as session:
        row = session.scalars(select(ApiKey)).one()
    assert _run("revoke-key", "--tenant", "Gamma", "--key", row.id).exit_code == 2
    with portal_database.reading() as session:
        assert session.scalars(select(ApiKey)).one().revoked_at is None


def test_old_password_ends_when_reset(portal_database: Database) -> None:
    _create_alpha()
    token = _sign_in(portal_database, PASSWORD)
    password = _run("reset-password", "--email", "alice@example.org").stdout.strip()
    assert sessions.resolve(portal_database, token) is None
    _sign_in(portal_database, password)
    with pytest.raises(Unauthenticated):
        _sign_in(portal_database, PASSWORD)


def test_tenants_are_listed_with_their_owners(portal_database: Database) -> None:
    _create_alpha()
    lines = _run("list-tenants").stdout.splitlines()
    assert lines[0].split()[:5] == ["TENANT", "OWNER", "MADE", "PLAN", "STATE"]
    assert lines[1].startswith("Alpha   alice@example.org")
    assert lines[1].split()[4:] == ["standard", "active", "0/5000", "0/50000", "never"]


def test_setting_is_named_when_it_is_unknown(portal_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_DATA_DIRR", "x")
    result = _run("list-tenants")
    assert result.exit_code == 2
    assert "PORTAL_DATA_DIR?" in result.stderr


def test_command_is_done_while_the_portal_writes(portal_database: Database) -> None:
    _create_alpha()
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.wait(0.005):
            with portal_database.transaction() as session:
                session.add(AuditEntry(action="test.wrote", actor="server"))

    server = threading.Thread(target=serve)
    server.start()
    try:
        assert _run("create-key", "--tenant", "Alpha", "--scopes", "ocr").exit_code == 0
    finally:
        is_over.set()
        server.join()


def test_neither_fastapi_nor_gradio_is_imported_by_the_commands() -> None:
    code = "import sys, portal.admin_commands; print([n for n in ('fastapi', 'gradio', 'alembic') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_quota_is_set_and_said_on_stderr_when_the_four_options_are_given(portal_database: Database) -> None:
    _create_alpha()
    options = ("--pages-per-day", "50", "--pages-per-month", "900", "--requests-per-minute", "7", "--weight", "2.5")
    first, again = (_run("set-quota", "--tenant", "Alpha", *options) for _ in range(2))
    assert (first.exit_code, first.stdout, again.exit_code, again.stdout) == (0, "", 0, "")
    assert "5,000 pages a day → 50 pages a day." in first.stderr
    assert again.stderr.strip() == "Nothing differs."
    assert _run("set-quota", "--tenant", "Alpha", "--pages-in-flight", "none", "--weight", "plan").exit_code == 0
    with portal_database.reading() as session:
        tenant_id = session.scalars(select(Tenant.id)).one()
        limits = terms_of(session, tenant_id, at=now()).limits
    assert limits == replace(
        DEFAULT_LIMITS, pages_per_day=50, pages_per_month=900, requests_per_minute=7, pages_in_flight=None
    )


def test_effect_is_said_and_nothing_set_when_it_is_a_dry_run(portal_database: Database) -> None:
    _create_alpha()
    result = _run("set-quota", "--tenant", "Alpha", "--pages-per-day", "0", "--dry-run")
    assert "new work is refused until the limit is raised" in result.stderr
    with portal_database.reading() as session:
        assert session.scalars(select(TenantLimit)).all() == []


def test_plan_is_made_given_and_listed(portal_database: Database) -> None:
    _create_alpha()
    made = _run("create-plan", "--name", "team", "--pages-per-day", "9", "--max-file-bytes", "none")
    assert made.exit_code == 0, made.stderr
    assert _run("set-plan", "--tenant", "Alpha", "--plan", "team").exit_code == 0
    listed = [line.split() for line in _run("list-plans").stdout.splitlines()]
    assert ["team", "1", "9", "50000"] in [line[:4] for line in listed]
    assert ["standard", "*", "0", "5000"] in [line[:4] for line in listed]


def test_tenant_is_suspended_resumed_and_deleted_when_its_name_is_typed(portal_database: Database) -> None:
    _create_alpha()
    named = ("--tenant", "Alpha")
    stopped = _run("suspend", *named, "--reason", "unpaid", "--new-jobs-only")
    assert (stopped.exit_code, stopped.stderr) == (0, "Tenant 'Alpha' may submit no new jobs.\n")
    assert "no_new_jobs" in _run("list-tenants").stdout
    assert _run("suspend", *named, "--reason", " ").exit_code == 2
    assert _run("resume", *named).exit_code == 0
    asked = _run("delete-tenant", *named)
    assert (asked.exit_code, "1 member," in asked.stderr) == (2, True)
    assert _run("delete-tenant", *named, "--confirm", "Beta").exit_code == 2
    with portal_database.reading() as session:
        assert session.scalars(select(Tenant.state)).one() == "active"
    assert _run("delete-tenant", *named, "--confirm", "Alpha").exit_code == 0
    with portal_database.reading() as session:
        assert session.scalars(select(Tenant)).all() == []
    printed = _run("audit", "--actor", "operator", "--action", "tenant.").stdout
    assert [line.split()[3] for line in printed.splitlines()[1:]] == [
        *("tenant.deleted", "tenant.deletion_began", "tenant.resumed", "tenant.suspended", "tenant.created"),
    ]


def test_link_alone_is_printed_and_opens_when_somebody_is_invited(
    portal_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTAL_PUBLIC_URL", "https://ocr.example.com")
    _create_alpha()
    for arguments, tenant_name, role in (
        (["--tenant", "Alpha", "--role", "owner"], "Alpha", "owner"),
        (["--tenant", "Alpha"], "Alpha", "member"),
        (["--new-tenant"], None, "owner"),
    ):
        result = _run("invite", *arguments)
        assert result.exit_code == 0, result.stderr
        address, _, token = result.stdout.strip().partition("#")
        assert address == "https://ocr.example.com/invite"
        assert token not in result.stderr
        offer = joining.offer_of(portal_database, token, address=None)
        assert (offer.tenant_name, offer.role, offer.invited_by) == (tenant_name, role, "operator")


@pytest.mark.parametrize(
    "arguments",
    [[], ["--tenant", "Alpha", "--new-tenant"], ["--tenant", "Nobody"], ["--new-tenant", "--days", "0"]],
)
def test_no_link_is_made_when_the_invite_is_not_clear(portal_database: Database, arguments: list[str]) -> None:
    _create_alpha()
    result = _run("invite", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_new_tenants_days_begin_in_the_portals_zone(portal_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_TIME_ZONE", "Asia/Tokyo")
    _create_alpha()
    with portal_database.reading() as session:
        assert session.scalars(select(Tenant.time_zone)).all() == ["Asia/Tokyo"]


def test_ledger_check_says_what_differs_and_sets_it_right_only_when_asked(portal_database: Database) -> None:
    _create_alpha()
    agreeing = _run("check-ledger")
    assert (agreeing.exit_code, "agree" in agreeing.stdout) == (0, True)
    with portal_database.transaction() as session:
        session.add(TenantUsage(tenant_id=session.scalars(select(Tenant.id)).one(), pending_pages=5))
    for _ in range(2):
        differing = _run("check-ledger")
        assert differing.exit_code == 1
        assert "pending_pages is 5, the reservations say 0" in differing.stderr
    assert _run("check-ledger", "--repair").exit_code == 0
    assert _run("check-ledger").exit_code == 0
    with portal_database.reading() as session:
        assert session.scalars(select(AuditEntry.action).where(AuditEntry.action == "ledger.repaired")).all() != []
