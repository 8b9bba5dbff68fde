"""/v1/admin: tenants, their state and their quotas; for an admin's own key."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from portal import audit
from portal.accounts import passwords, suspension, tenants
from portal.accounts.naming import checked_email
from portal.api import admin_orders as orders
from portal.api import admin_schemas as bodies
from portal.api import contract
from portal.api.access import Admin
from portal.api.problems import ProblemRoute
from portal.domain import TenantState
from portal.http.given import PortalServices
from portal.http.ids import AdminId
from portal.tenancy import directory
from portal.tenancy.deletion import delete_tenant as delete_whole_tenant
from portal.tenancy.inventory import inventory_of
from portal.usage import limit_edits

routes = APIRouter(prefix="/v1/admin", tags=["Admin"], route_class=ProblemRoute)

_LIMIT_ERRORS = ("limit_invalid", "limit_until_invalid", "time_zone_unknown", "reason_too_long", "plan_unknown")


@routes.get("/tenants", summary="List tenants", responses=contract.administering())
def list_tenants(services: PortalServices, admin: Admin) -> bodies.AdminTenantList:
    """All tenants with their use, those over 80 % of a quota first."""
    with services.database.transaction() as session:
        found = directory.list_tenants(session)
        audit.record(session, "tenants.read", actor=admin, tenant_id=admin.tenant_id)
    return bodies.AdminTenantList(data=[bodies.tenant_body(row) for row in found])


@routes.post(
    "/tenants",
    status_code=status.HTTP_201_CREATED,
    summary="Make a tenant",
    responses=contract.administering(
        *("malformed_body", "invalid_request", "tenant_name_invalid", "tenant_name_reserved", "email_invalid"),
        *("tenant_name_taken", "email_taken"),
    ),
)
def create_tenant(
    services: PortalServices, admin: Admin, order: orders.TenantOrder, response: Response
) -> bodies.CreatedTenantBody:
    """Makes a tenant and its owner; the owner's one-time password is shown in this answer only."""
    password = passwords.one_time_password()
    checked_email(order.email)
    password_hash = passwords.hashed(password)
    with services.database.transaction() as session:
        owner = tenants.create_tenant(
            session,
            name=order.name,
            email=order.email,
            password_hash=password_hash,
            time_zone=services.settings.accounts.time_zone,
            actor=admin,
        )
        made = directory.find_tenant(session, owner.tenant_id)
    response.headers["Cache-Control"] = "no-store"
    return bodies.CreatedTenantBody(tenant=bodies.tenant_body(made), one_time_password=password)


@routes.get("/tenants/{tenant_id}", summary="Show a tenant", responses=contract.administering("tenant_unknown"))
def show_tenant(services: PortalServices, admin: Admin, tenant_id: AdminId) -> bodies.AdminTenantBody:
    """One tenant, with what it has stored. That you looked is in the audit log."""
    with services.database.transaction() as session:
        found = directory.find_tenant(session, tenant_id)
        audit.record(session, "tenant.read", actor=admin, tenant_id=tenant_id, target=tenant_id)
        return bodies.tenant_body(found, inventory_of(session, tenant_id))


@routes.put(
    "/tenants/{tenant_id}/state",
    summary="Suspend or resume a tenant",
    responses=contract.administering(
        *("malformed_body", "invalid_request", "tenant_unknown", "admin_tenant", "reason_invalid")
    ),
)
def set_state(
    services: PortalServices, admin: Admin, tenant_id: AdminId, order: orders.StateOrder
) -> bodies.AdminTenantBody:
    """`no_new_jobs` leaves reading and export; `suspended` ends all sessions and stops all keys; `active` ends both."""
    with services.database.transaction() as session:
        if order.state is TenantState.ACTIVE:
            suspension.resume(session, tenant_id, actor=admin.label, address=admin.address)
        else:
            suspension.suspend(
                session,
                tenant_id,
                state=order.state,
                reason=order.reason or "",
                actor=admin.label,
                address=admin.address,
            )
        return bodies.tenant_body(directory.find_tenant(session, tenant_id))


@routes.post(
    "/tenants/{tenant_id}/delete",
    summary="Delete a tenant",
    responses=contract.administering(
        *("malformed_body", "invalid_request", "tenant_unknown", "admin_tenant", "name_not_typed"),
        *("unavailable", "storage_unavailable"),
    ),
)
def delete_tenant(
    services: PortalServices, admin: Admin, tenant_id: AdminId, order: orders.DeletionOrder
) -> bodies.DeletedTenantBody:
    """Everything of it goes for good; ledger, audit log and a deletion record stay. Running work is stopped.

    Asking again finishes a deletion that was interrupted.
    """
    gone = delete_whole_tenant(services.database, services.jobs.storage, admin, tenant_id, typed_name=order.name)
    return bodies.deleted_body(tenant_id, gone)


@routes.put(
    "/tenants/{tenant_id}/quota",
    summary="Change a tenant's limits, plan or time zone",
    responses=contract.administering(
        "malformed_body", "invalid_request", "tenant_unknown", "limits_changed", *_LIMIT_ERRORS
    ),
)
def set_quota(
    services: PortalServices, admin: Admin, tenant_id: AdminId, order: orders.QuotaOrder
) -> bodies.QuotaChangeBody:
    """Holds at once; says what it does. With `dry_run` it only says so."""
    with services.database.transaction() as session:
        if order.dry_run:  # its effects tell what the tenant uses
            audit.record(session, "tenant.read", actor=admin, tenant_id=tenant_id, target=tenant_id)
            return bodies.change_body(limit_edits.preview(session, tenant_id, order.edit()))
        return bodies.change_body(limit_edits.change(session, admin, tenant_id, order.edit(), seen=order.seen))


@routes.post(
    "/tenants/{tenant_id}/quota/{change_id}/undo",
    summary="Undo a change of limits",
    responses=contract.administering(
        "tenant_unknown", "change_unknown", "change_undone", "undo_too_late", "limits_changed"
    ),
)
def undo_quota(
    services: PortalServices, admin: Admin, tenant_id: AdminId, change_id: AdminId
) -> bodies.QuotaChangeBody:
    """Puts back what stood before, within ten minutes and when nothing changed since."""
    with services.database.transaction() as session:
        return bodies.change_body(limit_edits.undo(session, admin, tenant_id, change_id))
