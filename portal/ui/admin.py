"""The Admin page: tenants, requests for more, plans, dry run, audit log, overview, fleet; for the portal's admins.

What is shown stands in the address (`/admin?tab=…`). The page is refused to others before it is served (the guard),
and each event asks again here: Gradio answers events without the page.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import gradio as gr
from markupsafe import Markup

from portal import audit, audit_log
from portal.accounts import passwords, registration, suspension, tenants
from portal.accounts.registration import RegistrationMode
from portal.domain import Principal, TenantState
from portal.errors import Conflict, InvalidRequest, NotFound, PortalError
from portal.http.audit_csv import FILTERS, filters_of, moment_of
from portal.services import Services
from portal.tenancy import directory
from portal.tenancy.deletion import delete_tenant
from portal.tenancy.dry_run import dry_run
from portal.tenancy.inventory import inventory_of
from portal.tenancy.overview import overview
from portal.ui import admin_audit, admin_plans, admin_tenants, identity, markup, messages, shell
from portal.ui.admin_fleet import FleetTab
from portal.ui.admin_forms import FORMS_JS, Sent, done_mark
from portal.usage import limit_edits, plans, quota_decisions
from portal.usage.limit_values import parsed

_READINGS = {"tenants": "tenants.read", "requests": "quota_requests.read", "overview": "overview.read"}
TABS = {
    "tenants": "Tenants",
    "requests": "Requests",
    "plans": "Plans",
    "dry-run": "Dry run",
    "audit": "Audit",
    "overview": "Overview",
    "fleet": "Fleet",
}
_AUDIT_PAGE = 50
_SHOWING = ("preview", "dismiss", "dry-run")  # they change nothing


class AdminPage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tabs: dict[str, Callable[[Any, Principal, gr.Request], Markup]] = {
            "tenants": self._tenants,
            "requests": lambda session, _who, _asked: admin_plans.requests(
                quota_decisions.list_requests(session), datetime.now(UTC)
            ),
            "plans": lambda session, _who, _asked: admin_plans.plans(plans.list_plans(session)),
            "dry-run": lambda session, _who, _asked: admin_plans.dry_run_form(
                [(row.id, row.name) for row in directory.list_tenants(session)]
            ),
            "audit": self._audit,
            "overview": lambda session, _who, _asked: admin_audit.overview(overview(session)),
            "fleet": lambda _session, _who, _asked: Markup(""),  # FleetTab's own place
        }
        self._actions: dict[str, Callable[[Any, Principal, Sent], Markup]] = {
            "preview": _preview,
            "change": _change,
            "undo": _undo,
            "state": _set_state,
            "grant": _decide,
            "create-plan": _create_plan,
            "edit-plan": _edit_plan,
            "default-plan": _default_plan,
            "dry-run": _dry_run,
            "registration": self._set_registration,
            "dismiss": lambda _session, _who, _sent: Markup(""),
        }

    def lay(self, page: gr.Blocks) -> None:
        """Places tabs, notice and body and wires them; called inside the page's Blocks context."""
        head = shell.fragment("admin-head", _head(""))
        notice = shell.fragment("admin-notice", js_on_load=FORMS_JS)
        body = shell.fragment("admin-body", js_on_load=FORMS_JS)
        shell.on(page.load, messages.told(self._load), outputs=[head, body])
        for place in (notice, body):
            shell.on(place.submit, self._act, outputs=[notice, body])
        FleetTab(self._services).lay(page)

    def _load(self, request: gr.Request) -> tuple[Markup, Markup]:
        who = identity.admin_of(request)
        tab = _tab(request)
        try:
            return _head(tab), self._body(who, request, is_audited=True)
        except PortalError as error:
            return _head(tab), messages.inline(error)

    def _act(self, event: gr.EventData, request: gr.Request) -> tuple[Any, Any]:
        try:
            with identity.in_request((request,)):
                return self._acted(Sent.of(event._data), request)
        except Exception as error:  # noqa: BLE001  translator of this edge
            return messages.inline(error), gr.skip()

    def _acted(self, sent: Sent, request: gr.Request) -> tuple[Any, Any]:
        who = identity.admin_of(request)
        try:
            notice = self._done(who, sent)
        except Conflict as error:
            if error.code != "limits_changed":
                raise
            return self._anew(who, sent, error), self._body(who, request, is_audited=False)
        if sent.action in _SHOWING:
            return notice, gr.skip()
        done = Markup("") if sent.action == "undo" else done_mark(sent)
        return Markup("{}{}").format(notice, done), self._body(who, request, is_audited=False)

    def _anew(self, who: Principal, sent: Sent, error: Conflict) -> Markup:
        """Somebody was faster: that, and what the same change would do to the limits as they are now."""
        if sent.action != "change":
            return messages.inline(error)
        with self._services.database.transaction() as session:
            return Markup("{}{}").format(messages.inline(error), _preview(session, who, sent))

    def _done(self, who: Principal, sent: Sent) -> Markup:
        if sent.action == "create":
            return self._create(who, sent)
        if sent.action == "delete":
            return self._delete(who, sent)
        action = self._actions.get(sent.action)
        if action is None:
            raise InvalidRequest("That cannot be done.", remedy="Reload the page.")
        with self._services.database.transaction() as session:
            return action(session, who, sent)

    def _body(self, who: Principal, request: gr.Request, *, is_audited: bool) -> Markup:
        tab = _tab(request)
        with self._services.database.transaction() as session:
            if is_audited:
                _record_reading(session, who, tab, request)
            return self._tabs[tab](session, who, request)

    def _tenants(self, session: Any, _who: Principal, request: gr.Request) -> Markup:
        now, tenant_id = datetime.now(UTC), identity.asked(request, "tenant")
        if not tenant_id:
            mode = registration.registration_mode(session, self._services.settings)
            return admin_tenants.listing(directory.list_tenants(session), mode, now)
        try:
            row = directory.find_tenant(session, tenant_id)
        except NotFound:
            return Markup('<p class="back"><a href="/admin">‹ All tenants</a></p>{}').format(
                markup.empty("There is no such tenant", "It may have been deleted.")
            )
        names = {plan.id: plan.name for plan in plans.list_plans(session)}
        changes = limit_edits.recent_changes(session, tenant_id)
        return admin_tenants.details(row, inventory_of(session, tenant_id), names, changes, now)

    def _audit(self, session: Any, who: Principal, request: gr.Request) -> Markup:
        asked = {name: identity.asked(request, name) for name in FILTERS}
        found = audit_log.read(session, who, filters_of(asked), limit=_AUDIT_PAGE + 1)
        shown, names = found[:_AUDIT_PAGE], audit_log.tenant_names(session, found)
        return admin_audit.audit(shown, names, asked, has_more=len(found) > _AUDIT_PAGE, now=datetime.now(UTC))

    def _set_registration(self, session: Any, who: Principal, sent: Sent) -> Markup:
        if sent.text("mode") not in tuple(RegistrationMode):
            raise InvalidRequest("There is no such mode.", remedy="Choose one of the list.")
        mode = RegistrationMode(sent.text("mode"))
        registration.set_registration_mode(session, self._services.settings, who, mode)
        return markup.notice(f"Registration is now: {mode.value}", "", tone="plain")

    def _create(self, who: Principal, sent: Sent) -> Markup:
        password = passwords.one_time_password()
        password_hash = passwords.hashed(password)
        with self._services.database.transaction() as session:
            owner = tenants.create_tenant(
                session,
                name=sent.text("name"),
                email=sent.text("email"),
                password_hash=password_hash,
                time_zone=self._services.settings.accounts.time_zone,
                actor=who,
            )
        return admin_tenants.one_time_password(owner.tenant_name, password)

    def _delete(self, who: Principal, sent: Sent) -> Markup:
        gone = delete_tenant(
            self._services.database, self._services.jobs.storage, who, sent.target, typed_name=sent.text("name")
        )
        return admin_tenants.deleted(sent.text("name"), gone)


def _tab(request: gr.Request) -> str:
    asked = identity.asked(request, "tab")
    return asked if asked in TABS else "tenants"


def _record_reading(session: Any, who: Principal, tab: str, request: gr.Request) -> None:
    """That an admin looked at what is other tenants'; the audit log records its own readings."""
    tenant_id = identity.asked(request, "tenant") if tab == "tenants" else ""
    if tenant_id:
        audit.record(session, "tenant.read", actor=who, tenant_id=tenant_id, target=tenant_id)
    elif tab in _READINGS:
        audit.record(session, _READINGS[tab], actor=who, tenant_id=who.tenant_id)


def _head(tab: str) -> Markup:
    links = markup.joined(
        Markup('<a href="/admin?tab={}"{}>{}</a>').format(
            name, Markup(' aria-current="page"') if name == tab else "", label
        )
        for name, label in TABS.items()
    )
    return Markup(
        '<div class="lead"><h1>Admin</h1></div><nav class="admin-tabs" aria-label="Parts of the Admin page">{}</nav>'
    ).format(links)


def _preview(session: Any, _who: Principal, sent: Sent) -> Markup:
    found = limit_edits.preview(session, sent.target, sent.edit())
    written = {name: value for name, value in sent.fields.items() if value.strip() and name != "seen"}
    return admin_tenants.preview(found, written)


def _change(session: Any, who: Principal, sent: Sent) -> Markup:
    made = limit_edits.change(session, who, sent.target, sent.edit(), seen=sent.text("seen") or None)
    return admin_tenants.changed(sent.target, made.id, made.effects)


def _undo(session: Any, who: Principal, sent: Sent) -> Markup:
    undone = limit_edits.undo(session, who, sent.target, sent.text("change"))
    return admin_tenants.changed(sent.target, None, undone.effects)


def _set_state(session: Any, who: Principal, sent: Sent) -> Markup:
    wanted = sent.text("state")
    if wanted not in tuple(TenantState):
        raise InvalidRequest("There is no such state.", remedy="Choose one of the list.")
    state, by = TenantState(wanted), {"actor": who.label, "address": who.address}
    if state is TenantState.ACTIVE:
        suspension.resume(session, sent.target, actor=who.label, address=who.address)
    else:
        reason = sent.text("reason")
        suspension.suspend(session, sent.target, state=state, reason=reason, actor=who.label, address=by["address"])
    return markup.notice(f"The state is now: {admin_tenants.STATES[state]}", "", tone="plain")


def _decide(session: Any, who: Principal, sent: Sent) -> Markup:
    answer = sent.text("answer")
    if sent.text("decision") == "decline":
        ask = quota_decisions.decline(session, who, sent.target, answer=answer)
    else:
        limit = quota_decisions.limit_of(session, sent.target)
        value = parsed(limit, sent.text("value")) if sent.text("value") else None
        number = value if isinstance(value, int | float) else None
        until = moment_of(sent.text("until"))
        ask = quota_decisions.grant(session, who, sent.target, value=number, answer=answer, until=until)
    return markup.notice(f"{ask.tenant_name}: {ask.state}", "", tone="plain")


def _create_plan(session: Any, who: Principal, sent: Sent) -> Markup:
    made = plans.create_plan(session, who, sent.text("name"), sent.plain_limits())
    return markup.notice(f"The plan {made.name} is made", "", tone="plain")


def _edit_plan(session: Any, who: Principal, sent: Sent) -> Markup:
    changed = plans.edit_plan(session, who, sent.target, sent.plain_limits())
    return markup.notice(f"The plan {changed.name} is changed", "", tone="plain")


def _default_plan(session: Any, who: Principal, sent: Sent) -> Markup:
    plan = plans.make_default(session, who, sent.target)
    return markup.notice(f"{plan.name} is the default plan", "", tone="plain")


def _dry_run(session: Any, who: Principal, sent: Sent) -> Markup:
    limits, tenant_id = sent.plain_limits(), sent.text("tenant") or None
    found = dry_run(session, limits, tenant_id=tenant_id)
    tried = {limit.value: value for limit, value in limits.items()}
    audit.record(session, "usage.dry_run", actor=who, tenant_id=tenant_id, limits=tried)
    return admin_plans.verdicts(found)
