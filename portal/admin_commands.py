"""`app.py admin …`: what the operator does from a shell, also while the portal is serving.

Only what was asked for goes to stdout (a key, a password, a table), so that it can be piped; the rest goes to
stderr. A refusal is printed with its remedy, and the exit status is 2.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer
from sqlalchemy.orm import Session

from models.base import now
from portal import audit
from portal.accounts import api_keys, invites, passwords, tenants
from portal.accounts.api_keys import ApiKeyView
from portal.accounts.naming import checked_email
from portal.accounts.peppers import Peppers
from portal.accounts.rotation import Overlap, rotate
from portal.db import Database
from portal.domain import Principal, Role
from portal.errors import InvalidRequest, NotFound
from portal.quota_commands import quotas
from portal.shell import day as _day
from portal.shell import opened as _opened
from portal.shell import print_table as _print_table
from portal.shell import say as _say
from portal.tenant_commands import tenant_work
from portal.usage import books
from portal.wording import counted

admin = typer.Typer(
    name="admin",
    help="Tenants, keys and passwords, from the operator's shell; works while the portal is serving.",
    no_args_is_help=True,
)
admin.add_typer(quotas)
admin.add_typer(tenant_work)

TenantOption = Annotated[str, typer.Option("--tenant", help="The tenant's name")]
KeyOption = Annotated[str, typer.Option("--key", help="The key's id or prefix")]
PasswordOption = Annotated[
    str | None, typer.Option("--password", help="Better left out: a one-time password is made and printed.")
]


@admin.command("create-tenant")
def create_tenant(
    name: Annotated[str, typer.Option("--name", help="The tenant's name")],
    email: Annotated[str, typer.Option("--email", help="The owner's e-mail, which signs in")],
    password: PasswordOption = None,
) -> None:
    """Make a tenant and its owner. Without --password, a one-time password is printed."""
    with _opened() as (configured, database):
        chosen = password if password is not None else passwords.one_time_password()
        passwords.check_policy(chosen, checked_email(email))
        password_hash = passwords.hashed(chosen)
        with database.transaction() as session:
            owner = tenants.create_tenant(
                session, name=name, email=email, password_hash=password_hash, time_zone=configured.accounts.time_zone
            )
    _say(f"Tenant '{owner.tenant_name}' is made; {owner.email} owns it.")
    if password is None:
        _say("One-time password, shown only now; change it on the Account page:")
        typer.echo(chosen)


@admin.command("create-key")
def create_key(
    tenant: TenantOption,
    scopes: Annotated[str, typer.Option("--scopes", help="Comma-separated: ocr, read, chat, prompt, members, admin")],
    name: Annotated[str, typer.Option("--name", help="What will use the key")] = "command line",
    expires_days: Annotated[int | None, typer.Option("--expires-days", min=1, max=36500)] = None,
) -> None:
    """Make an API key for the tenant's owner. The key alone is printed on stdout, and only now."""
    expires_at = now() + timedelta(days=expires_days) if expires_days else None
    wanted = [scope.strip() for scope in scopes.split(",") if scope.strip()]
    with _opened() as (configured, database):
        peppers = Peppers.load(configured)
        with database.transaction() as session:
            owner = tenants.owner_of(session, tenant)
            created = api_keys.create(
                session, peppers, owner, name=name, scopes=wanted, expires_at=expires_at, actor=tenants.OPERATOR
            )
    _say(f"Key {created.view.id} of '{owner.tenant_name}' with {', '.join(created.view.scopes)}; shown only now:")
    typer.echo(created.key)


@admin.command("list-keys")
def list_keys(tenant: TenantOption) -> None:
    """List a tenant's keys: prefix, name, scopes, state, last use."""
    with _opened() as (_, database), database.reading() as session:
        views = api_keys.list_keys(session, tenants.owner_of(session, tenant).tenant_id)
    rows = [
        (view.prefix, view.id, view.name, ",".join(view.scopes), _state(view), _day(view.last_used_at))
        for view in views
    ]
    _print_table(("PREFIX", "ID", "NAME", "SCOPES", "STATE", "LAST USED"), rows)


@admin.command("revoke-key")
def revoke_key(tenant: TenantOption, key: KeyOption) -> None:
    """Revoke a key at once and for good."""
    with _opened() as (_, database), database.transaction() as session:
        owner = tenants.owner_of(session, tenant)
        found = _key_of(session, owner, key)
        api_keys.revoke(session, owner, found.id, actor=tenants.OPERATOR)
    _say(f"Key {found.prefix}… ({found.name}) is revoked.")


@admin.command("rotate-key")
def rotate_key(
    tenant: TenantOption,
    key: KeyOption,
    overlap: Annotated[Overlap, typer.Option("--overlap", help="How long the old key stays valid")] = Overlap.DAY,
) -> None:
    """Replace a key by one with its name and scopes, for the owner. The new key alone is printed on stdout."""
    with _opened() as (configured, database):
        peppers = Peppers.load(configured)
        with database.transaction() as session:
            owner = tenants.owner_of(session, tenant)
            old = _key_of(session, owner, key)
            created = rotate(session, peppers, owner, old.id, overlap=overlap, actor=tenants.OPERATOR)
    _say(f"Key {created.view.id} ({created.view.name}) replaces {old.prefix}…; shown only now:")
    typer.echo(created.key)


@admin.command("invite")
def invite(
    tenant: Annotated[str | None, typer.Option("--tenant", help="The tenant to join, by name")] = None,
    new_tenant: Annotated[bool, typer.Option("--new-tenant", help="To make a tenant of their own instead")] = False,
    role: Annotated[Role, typer.Option("--role", help="The role in the tenant")] = Role.MEMBER,
    days: Annotated[int, typer.Option("--days", help="How long it can be used")] = invites.DEFAULT_DAYS,
) -> None:
    """Make a link for one person to join a tenant, or to make one. The link alone is printed on stdout."""
    with _opened() as (configured, database):
        if (tenant is None) != new_tenant:
            raise InvalidRequest(
                "Say which of the two: an invite into a tenant, or to make one.",
                remedy="Give either --tenant NAME or --new-tenant.",
            )
        terms = invites.InviteTerms(role=role, days=days)
        with database.transaction() as session:
            tenant_id = None if tenant is None else tenants.owner_of(session, tenant).tenant_id
            made = invites.create(session, tenant_id, terms, actor=tenants.OPERATOR)
        _say(f"Works once, until {_day(made.view.expires_at)}; shown only now:")
        typer.echo(made.link(configured.server.address))


@admin.command("reset-password")
def reset_password(
    email: Annotated[str, typer.Option("--email", help="The member's e-mail")], password: PasswordOption = None
) -> None:
    """Give a member a new password and sign all their browsers out. Without --password, it is made and printed."""
    with _opened() as (_, database):
        fresh = tenants.reset_password(database, email, password=password)
    _say(f"The password of {email} is reset, and their browsers are signed out.")
    if password is None:
        _say("One-time password, shown only now; change it on the Account page:")
        typer.echo(fresh)


@admin.command("check-ledger")
def check_ledger(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Set reservations and counters by the entries, and return strays.")
    ] = False,
) -> None:
    """Prove that entries = reservations = counters for each tenant. Exit status 1 when they do not agree."""
    from portal.jobs import stray_reservations  # late, as in all commands that need the heavier parts

    with _opened() as (_, database):
        if repair:
            _repair(database)
        with database.reading() as session:  # one snapshot, so that it holds while the portal works
            checked, strays = books.check(session), stray_reservations.strays(session)
        _print_table(
            ("TENANT", "RESERVED", "POSTED", "RETURNED", "PENDING", "BOOKS"),
            [
                (each.tenant_name, *map(str, each.entries), str(each.pending), "differ" if each.faults else "agree")
                for each in checked
            ],
        )
    pages = sum(count for found in strays.values() for _, count in found)
    if pages:
        _say(f"Reserved for nobody: {counted(pages, 'page')}; returned by itself within the hour, or by --repair.")
    for each in checked:
        for fault in each.faults:
            _say(f"{each.tenant_name}: {fault}")
    if any(each.faults for each in checked):
        _say("Set it right with: python app.py admin check-ledger --repair")
        raise typer.Exit(1)


def _repair(database: Database) -> None:
    from portal.jobs import stray_reservations

    with database.reading() as session:
        wrong = [each for each in books.check(session) if each.faults]
    for each in wrong:
        with database.transaction() as session:
            books.repair(session, each.tenant_id)
            audit.record(
                session, "ledger.repaired", actor=tenants.OPERATOR, tenant_id=each.tenant_id, faults=len(each.faults)
            )
        _say(f"{each.tenant_name}: reservations and counters are set by the entries.")
    swept = stray_reservations.sweep_reservations(database)
    if swept.pages:
        _say(f"Returned: {counted(swept.pages, 'page')} of {counted(swept.reservations, 'reservation')} of nobody.")


def _key_of(session: Session, owner: Principal, key: str) -> ApiKeyView:
    found = next((view for view in api_keys.list_keys(session, owner.tenant_id) if key in (view.id, view.prefix)), None)
    if found is None:
        raise NotFound(
            "The tenant has no such API key.",
            code="api_key_unknown",
            remedy="List them with: python app.py admin list-keys --tenant …",
        )
    return found


def _state(view: ApiKeyView) -> str:
    if view.revoked_at is not None:
        return "revoked"
    if view.expires_at is None:
        return "active"
    if view.expires_at <= now():
        return f"expired {_day(view.expires_at)}"
    return f"{'replaced, ' if view.replaced_by else ''}until {_day(view.expires_at)}"
