"""/v1/admin: plans, tenants' requests for more, dry runs and the audit log; for an admin's own key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response, status

from portal import audit, audit_log
from portal.accounts.registration import registration_mode, set_registration_mode
from portal.api import admin_orders as orders
from portal.api import admin_schemas as bodies
from portal.api import contract
from portal.api.access import Admin
from portal.api.problems import ProblemRoute
from portal.http.audit_csv import audit_csv
from portal.http.given import PortalServices
from portal.http.ids import AdminId
from portal.tenancy.dry_run import dry_run as run_dry
from portal.usage import plans, quota_decisions

routes = APIRouter(prefix="/v1/admin", tags=["Admin"], route_class=ProblemRoute)

_PlanName = Annotated[str, Path(max_length=60, description="The plan's name")]
_OnlyOpen = Annotated[bool, Query(description="Only those that wait")]
_CSV: contract.Responses = {200: {"description": "The file", "content": {"text/csv": {"schema": {"type": "string"}}}}}


@routes.get("/registration", summary="Who may sign up", responses=contract.administering())
def show_registration(services: PortalServices, admin: Admin) -> bodies.RegistrationBody:
    """Open, by invite, or closed; `is_fixed` where PORTAL_REGISTRATION says so."""
    with services.database.reading() as session:
        mode, is_fixed = registration_mode(session, services.settings)
    return bodies.RegistrationBody(mode=mode, is_fixed=is_fixed)


@routes.put(
    "/registration",
    summary="Choose who may sign up",
    responses=contract.administering("malformed_body", "registration_fixed"),
)
def choose_registration(
    services: PortalServices, admin: Admin, order: orders.RegistrationOrder
) -> bodies.RegistrationBody:
    """Holds at once. Invites work in each mode."""
    with services.database.transaction() as session:
        set_registration_mode(session, services.settings, admin, order.mode)
    return bodies.RegistrationBody(mode=order.mode, is_fixed=False)


@routes.get("/plans", summary="List plans", responses=contract.administering())
def list_plans(services: PortalServices, admin: Admin) -> bodies.PlanList:
    """All plans, the default first."""
    with services.database.reading() as session:
        return bodies.PlanList(data=[bodies.plan_body(plan) for plan in plans.list_plans(session)])


@routes.post(
    "/plans",
    status_code=status.HTTP_201_CREATED,
    summary="Make a plan",
    responses=contract.administering(
        "malformed_body", "invalid_request", "plan_name_invalid", "plan_name_taken", "limit_invalid"
    ),
)
def create_plan(services: PortalServices, admin: Admin, order: orders.PlanOrder) -> bodies.PlanBody:
    """Makes a plan; limits that are left out are as built in."""
    with services.database.transaction() as session:
        return bodies.plan_body(plans.create_plan(session, admin, order.name, order.limits))


@routes.patch(
    "/plans/{name}",
    summary="Change a plan",
    responses=contract.administering("malformed_body", "invalid_request", "plan_unknown", "limit_invalid"),
)
def edit_plan(services: PortalServices, admin: Admin, name: _PlanName, order: orders.PlanEditOrder) -> bodies.PlanBody:
    """Holds at once for every tenant that has it; limits of a tenant's own stay."""
    with services.database.transaction() as session:
        changed = plans.edit_plan(session, admin, name, order.limits)
        if order.is_default:
            changed = plans.make_default(session, admin, name)
        return bodies.plan_body(changed)


@routes.get("/quota-requests", summary="List requests for more", responses=contract.administering())
def list_requests(services: PortalServices, admin: Admin, open: _OnlyOpen = False) -> bodies.QuotaRequestList:
    """Open ones first, oldest first; then the 50 decided last."""
    with services.database.transaction() as session:
        found = quota_decisions.list_requests(session, only_open=open)
        audit.record(session, "quota_requests.read", actor=admin, tenant_id=admin.tenant_id)
        return bodies.QuotaRequestList(data=[bodies.request_body(ask) for ask in found])


@routes.post(
    "/quota-requests/{request_id}/grant",
    summary="Grant a request for more",
    responses=contract.administering(
        *("malformed_body", "invalid_request", "quota_request_unknown", "quota_request_decided"),
        *("limit_invalid", "limit_until_invalid", "answer_invalid"),
    ),
)
def grant_request(
    services: PortalServices, admin: Admin, request_id: AdminId, order: orders.GrantOrder
) -> bodies.QuotaRequestBody:
    """Gives the tenant what it asked for, or `value` instead."""
    with services.database.transaction() as session:
        given = quota_decisions.grant(
            session, admin, request_id, value=order.value, answer=order.answer, until=order.until
        )
        return bodies.request_body(given)


@routes.post(
    "/quota-requests/{request_id}/decline",
    summary="Decline a request for more",
    responses=contract.administering(
        *("malformed_body", "invalid_request", "quota_request_unknown", "quota_request_decided", "answer_invalid")
    ),
)
def decline_request(
    services: PortalServices, admin: Admin, request_id: AdminId, order: orders.DeclineOrder
) -> bodies.QuotaRequestBody:
    """Says no, with words that the tenant reads."""
    with services.database.transaction() as session:
        return bodies.request_body(quota_decisions.decline(session, admin, request_id, answer=order.answer))


@routes.post(
    "/dry-run",
    summary="Try limits on last week's traffic",
    responses=contract.administering("malformed_body", "invalid_request", "tenant_unknown", "limit_invalid"),
)
def dry_run(services: PortalServices, admin: Admin, order: orders.DryRunOrder) -> bodies.DryRunBody:
    """Whom the limits would have refused, when, and how many pages. Nothing is changed."""
    with services.database.transaction() as session:
        found = run_dry(session, order.limits, tenant_id=order.tenant_id)
        limits = {limit.value: value for limit, value in order.limits.items()}
        audit.record(session, "usage.dry_run", actor=admin, tenant_id=order.tenant_id, limits=limits)
    return bodies.DryRunBody(data=[bodies.verdict_body(verdict) for verdict in found])


@routes.get("/audit", summary="Read the audit log", responses=contract.administering("invalid_request"))
def read_audit(
    services: PortalServices,
    admin: Admin,
    asked: Annotated[orders.AuditStretchQuery, Query()],
) -> bodies.AuditList:
    """Newest first. That you read it is in the log."""
    with services.database.transaction() as session:
        found = audit_log.read(session, admin, asked.filters(asked.before), limit=asked.limit + 1)
    return bodies.AuditList(
        data=[bodies.audit_body(entry) for entry in found[: asked.limit]], has_more=len(found) > asked.limit
    )


@routes.get(
    "/audit.csv",
    summary="Download the audit log",
    responses=_CSV | contract.administering("invalid_request"),
)
def download_audit(services: PortalServices, admin: Admin, asked: Annotated[orders.AuditQuery, Query()]) -> Response:
    """All entries that the filters leave, newest first, as CSV. That you took them is in the log."""
    return audit_csv(services.database, admin, asked.filters())
