"""`app.py admin suspend` and its kin: what an operator does to whole tenants, and the audit log."""

from __future__ import annotations

from typing import Annotated

import typer

from models import AuditEntry
from portal import audit_log
from portal.accounts import suspension, tenants
from portal.accounts.registration import RegistrationMode, set_registration_mode
from portal.audit_log import Filters
from portal.documents.storage import Storage
from portal.domain import Limit, TenantState
from portal.shell import day, opened, print_table, say
from portal.tenancy import directory
from portal.tenancy.deletion import delete_tenant as delete_whole_tenant
from portal.tenancy.directory import TenantRow
from portal.tenancy.inventory import inventory_of

tenant_work = typer.Typer()

_STOPPED = {TenantState.NO_NEW_JOBS: "may submit no new jobs", TenantState.SUSPENDED: "is suspended"}
TenantOption = Annotated[str, typer.Option("--tenant", help="The tenant's name")]


@tenant_work.command("list-tenants")
def list_tenants() -> None:
    """List tenants by use: those over 80 % of a quota first."""
    with opened() as (_, database), database.reading() as session:
        rows = [_row(row) for row in directory.list_tenants(session)]
    print_table(("TENANT", "OWNER", "MADE", "PLAN", "STATE", "TODAY", "THIS MONTH", "LAST SEEN"), rows)


@tenant_work.command("suspend")
def suspend(
    tenant: TenantOption,
    reason: Annotated[str, typer.Option("--reason", help="Shown to the tenant")],
    new_jobs_only: Annotated[bool, typer.Option("--new-jobs-only", help="Leave sign-in, reading and export")] = False,
) -> None:
    """Stop a tenant: nobody of it signs in and no key works, or only no new jobs."""
    state = TenantState.NO_NEW_JOBS if new_jobs_only else TenantState.SUSPENDED
    with opened() as (_, database), database.transaction() as session:
        tenant_id = tenants.owner_of(session, tenant).tenant_id
        suspension.suspend(session, tenant_id, state=state, reason=reason, actor=tenants.OPERATOR)
    say(f"Tenant '{tenant}' {_STOPPED[state]}.")


@tenant_work.command("resume")
def resume(tenant: TenantOption) -> None:
    """Let a tenant go on."""
    with opened() as (_, database), database.transaction() as session:
        suspension.resume(session, tenants.owner_of(session, tenant).tenant_id, actor=tenants.OPERATOR)
    say(f"Tenant '{tenant}' is active.")


@tenant_work.command("delete-tenant")
def delete_tenant(
    tenant: TenantOption,
    confirm: Annotated[str | None, typer.Option("--confirm", help="The tenant's name, typed again")] = None,
) -> None:
    """Delete a tenant and all that it stored, for good. Without --confirm, say what would go."""
    with opened() as (configured, database):
        with database.reading() as session:
            tenant_id = tenants.owner_of(session, tenant).tenant_id
            stored = inventory_of(session, tenant_id)
        if confirm is None:
            say(f"What goes: {stored.words}. Nothing was deleted. To do it, add: --confirm '{tenant}'")
            raise typer.Exit(2)
        storage = Storage(configured.store.data_dir)
        gone = delete_whole_tenant(database, storage, tenants.OPERATOR, tenant_id, typed_name=confirm)
    say(f"Tenant '{tenant}' is deleted. Gone: {gone.words}.")


@tenant_work.command("set-registration")
def set_registration(
    mode: Annotated[RegistrationMode, typer.Option("--mode", help="Who may make a new tenant")],
) -> None:
    """Choose who may sign up, unless PORTAL_REGISTRATION fixes it."""
    with opened() as (configured, database), database.transaction() as session:
        set_registration_mode(session, configured, tenants.OPERATOR, mode)
    say(f"Registration is {mode.value}.")


@tenant_work.command("audit")
def show_audit(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Name or id")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="An e-mail, or operator")] = None,
    action: Annotated[str | None, typer.Option("--action", help="Whole, or a subject with its dot: api_key.")] = None,
    request_id: Annotated[str | None, typer.Option("--request-id", help="Of an answer or a log line")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=audit_log.MAX_STRETCH)] = 50,
) -> None:
    """Print the newest entries of the audit log; that you read them is one itself."""
    filters = Filters(tenant=tenant, actor=actor, action=action, request_id=request_id)
    with opened() as (_, database), database.transaction() as session:
        found = audit_log.read(session, tenants.OPERATOR, filters, limit=limit)
        rows = [_entry(entry) for entry in found]
    print_table(("TIME", "ACTOR", "ACTION", "RESULT", "TARGET", "CHANGE"), rows)


def _row(row: TenantRow) -> tuple[str, ...]:
    used = {standing.limit: standing for standing in row.standing.standings}
    quotas = (
        f"{used[limit].used}/{'no limit' if used[limit].allowed is None else used[limit].allowed}"
        for limit in (Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH)
    )
    terms = row.standing.terms
    made, seen = day(row.created_at), day(row.last_seen_at)
    return (row.name, row.owner or "", made, terms.plan, terms.state.value, *quotas, seen)


def _entry(entry: AuditEntry) -> tuple[str, ...]:
    at, target = f"{entry.at:%Y-%m-%d %H:%M:%S}Z", entry.target or ""
    return at, entry.actor, entry.action, entry.result, target, _change(entry.before, entry.after)


def _change(before: dict[str, object] | None, after: dict[str, object] | None) -> str:
    names = [*(before or {}), *(name for name in after or {} if name not in (before or {}))]
    return ", ".join(f"{name}: {(before or {}).get(name)} → {(after or {}).get(name)}" for name in names)
