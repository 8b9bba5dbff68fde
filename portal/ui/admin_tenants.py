"""The Tenants tab as HTML: the list by use, one tenant with its limits, and what a change of them does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from markupsafe import Markup

from models import LimitChange
from portal.accounts.registration import RegistrationMode
from portal.domain import Limit, Standing, TenantState
from portal.tenancy.directory import TenantRow
from portal.tenancy.inventory import Inventory
from portal.ui import admin_changes, charts, markup
from portal.usage.limit_edits import Preview
from portal.usage.limit_effects import Effect
from portal.usage.limit_values import LABELS, number_shown

STATES = {TenantState.ACTIVE: "Active", TenantState.NO_NEW_JOBS: "No new jobs", TenantState.SUSPENDED: "Suspended"}
_BADGES = {TenantState.ACTIVE: "active", TenantState.NO_NEW_JOBS: "partial", TenantState.SUSPENDED: "failed"}
_PERIODS = {Limit.PAGES_PER_DAY: "today", Limit.PAGES_PER_MONTH: "this month"}


def listing(rows: Sequence[TenantRow], registration: tuple[RegistrationMode, bool], now: datetime) -> Markup:
    """All tenants, those near their limit first, the form that makes one, and who may sign up."""
    near, rest = [row for row in rows if row.is_near], [row for row in rows if not row.is_near]
    groups = (("Over 80 % of a quota", near), ("Tenants" if not near else "All others", rest))
    drawn = markup.joined(
        Markup('<section class="group"><h2>{} <small>{}</small></h2><ul class="entries">{}</ul></section>').format(
            title, len(found), markup.joined(_row(row, now) for row in found)
        )
        for title, found in groups
        if found
    )
    return Markup("{}{}{}").format(drawn, _CREATE, _registration_form(*registration))


_CREATE = Markup(
    '<section class="card"><h2>New tenant</h2><form class="admin-form" data-action="create">'
    '<label>Name<input name="name" required maxlength="100" autocomplete="off"></label>'
    '<label>The owner’s e-mail<input name="email" type="email" required maxlength="254" autocomplete="off"></label>'
    '<button class="button primary">Make the tenant</button></form></section>'
)


_MODES = {
    RegistrationMode.OPEN: "Anybody",
    RegistrationMode.INVITE: "Who holds an invite",
    RegistrationMode.CLOSED: "Nobody: admins make tenants",
}


def _registration_form(mode: RegistrationMode, is_fixed: bool) -> Markup:
    if is_fixed:
        return Markup(
            '<section class="card"><h2>Who may sign up</h2><p>{}, as PORTAL_REGISTRATION says.</p></section>'
        ).format(_MODES[mode])
    options = markup.joined(
        Markup('<option value="{}"{}>{}</option>').format(
            each.value, Markup(" selected") if each is mode else "", label
        )
        for each, label in _MODES.items()
    )
    return Markup(
        '<section class="card"><h2>Who may sign up</h2><form class="admin-form" data-action="registration">'
        '<label>New tenants are made by<select name="mode">{}</select></label>'
        '<button class="button" id="set-registration">Set it</button></form></section>'
    ).format(options)


def _row(row: TenantRow, now: datetime) -> Markup:
    return Markup(
        '<li class="entry tenant-entry"><div class="entry-main"><a class="entry-title" href="/admin?tenant={}">{}</a>'
        '<p class="entry-facts">{} · plan {} · {}</p></div>{}<div class="entry-state">{}</div></li>'
    ).format(
        row.id,
        row.name,
        row.owner or "no owner",
        row.standing.terms.plan,
        _seen(row, now),
        use_bar(row.tightest),
        state_badge(row.standing.terms.state),
    )


def _seen(row: TenantRow, now: datetime) -> Markup:
    if row.last_seen_at is None:
        return Markup("never seen")
    return Markup("last seen {}").format(markup.moment(row.last_seen_at, now))


def state_badge(state: TenantState) -> Markup:
    """The state as a pill."""
    return markup.badge(_BADGES[state], STATES[state])


def use_bar(standing: Standing | None) -> Markup:
    """How much of a quota is used: a bar, and the same in words."""
    if standing is None or standing.allowed is None:
        return Markup('<div class="use"><small>no quota limits its pages</small></div>')
    part = standing.used_share
    level = "full" if part >= 1 else "near" if part > 0.8 else "well"
    said = f"{standing.used:,} of {standing.allowed:,} pages {_PERIODS.get(standing.limit, '')}".strip()
    return Markup('<div class="use" data-level="{}">{}<small>{}</small></div>').format(level, charts.bar(part), said)


def details(
    row: TenantRow,
    stored: Inventory,
    plan_names: Mapping[str, str],
    made: Sequence[LimitChange],
    now: datetime,
) -> Markup:
    """One tenant: its limits to be edited, its state, what it has stored, and how it is deleted.

    `plan_names` are by the plans' ids.
    """
    terms = row.standing.terms
    head = Markup(
        '<p class="back"><a href="/admin">‹ All tenants</a></p><div class="tenant-head"><h2>{}</h2>{}</div>'
        '<p class="entry-facts">{} · {} · made {} · <code>{}</code></p>{}'
    ).format(
        row.name,
        state_badge(terms.state),
        row.owner or "no owner",
        _seen(row, now),
        markup.moment(row.created_at, now),
        row.id,
        Markup("<p>Shown to the tenant: {}</p>").format(terms.state_reason) if terms.state_reason else "",
    )
    return Markup("{}{}{}{}{}").format(
        head,
        _limits_form(row, tuple(plan_names.values())),
        admin_changes.changes(row.id, made, plan_names, now),
        _state_form(row),
        _delete_form(row, stored),
    )


def _limits_form(row: TenantRow, plan_names: Sequence[str]) -> Markup:
    terms = row.standing.terms
    standings = {standing.limit: standing for standing in row.standing.standings}
    options = markup.joined(
        Markup('<option value="{0}">{0}</option>').format(name) for name in ("default", *plan_names)
    )
    lines = markup.joined(
        Markup(
            '<tr><th scope="row"><label for="new-{0}">{1}</label></th><td>{2}</td><td>{3}</td>'
            '<td><input id="new-{0}" name="{0}" placeholder="unchanged" autocomplete="off" maxlength="20"></td></tr>'
        ).format(
            limit.value,
            LABELS[limit],
            number_shown(terms.limits.value(limit)),
            f"{standings[limit].used:,}" if limit in standings else "–",
        )
        for limit in Limit
    )
    return Markup(
        '<section class="card"><h2>Limits</h2><form class="admin-form" data-action="preview" data-target="{}">'
        '<table class="limits"><thead><tr><th scope="col">Limit</th><th scope="col">Now</th>'
        '<th scope="col">Used</th><th scope="col">New</th></tr></thead><tbody>{}</tbody></table>'
        "<p class='hint'>A number, <code>none</code> for no limit, or <code>plan</code> for the plan’s again.</p>"
        '<div class="fields"><label>Plan (now {})<select name="plan"><option value="">unchanged</option>{}</select>'
        '</label><label>Time zone<input name="time_zone" placeholder="{}" maxlength="64" autocomplete="off"></label>'
        '<label>Ends (UTC), if it is for a while<input name="until" type="datetime-local"></label>'
        '<label>Reason<input name="reason" maxlength="300" autocomplete="off"></label></div>'
        '<button class="button primary" id="see-effect">See the effect</button></form></section>'
    ).format(row.id, lines, terms.plan, options, terms.time_zone)


def preview(seen: Preview, fields: Mapping[str, str]) -> Markup:
    """What a change would do, with the buttons that make it or not. `fields` are carried to the confirmation."""
    if not seen.effects:
        return markup.notice("Nothing would change", "All that you wrote is so already.", tone="plain")
    hidden = markup.joined(
        Markup('<input type="hidden" name="{}" value="{}">').format(name, value)
        for name, value in (*fields.items(), ("seen", seen.seen))
    )
    return Markup(
        '<section class="card preview" aria-labelledby="preview-title"><h2 id="preview-title" tabindex="-1"'
        ' data-focus>Change {}?</h2>{}<form class="admin-form buttons" data-action="change" data-target="{}">{}'
        '<button type="button" class="button" data-action="dismiss">Cancel</button>'
        '<button class="button primary" id="confirm-change">Change it now</button></form></section>'
    ).format(seen.tenant_name, effect_list(seen.effects), seen.tenant_id, hidden)


def effect_list(effects: Sequence[Effect]) -> Markup:
    """Old → new of each thing, what is used now, and what that does."""
    return Markup('<ul class="effects">{}</ul>').format(
        markup.joined(
            Markup("<li><b>{}</b> {} <span aria-label='becomes'>→</span> <b>{}</b>{}<p>{}</p></li>").format(
                effect.label, _shown(effect.old), _shown(effect.new), _used(effect), effect.words
            )
            for effect in effects
        )
    )


def changed(tenant_id: str, change_id: str | None, effects: Sequence[Effect]) -> Markup:
    """What was done, and the way back."""
    undo = Markup("")
    if change_id is not None:
        undo = Markup(
            '<form class="admin-form buttons" data-action="undo" data-target="{}" ><input type="hidden" name="change"'
            ' value="{}"><button class="button" id="undo-change">Undo (for ten minutes)</button></form>'
        ).format(tenant_id, change_id)
    return Markup(
        '<section class="card preview" role="status"><h2 tabindex="-1" data-focus>Changed</h2>{}{}</section>'
    ).format(effect_list(effects), undo)


def _shown(value: float | str | None) -> str:
    return value if isinstance(value, str) else number_shown(value)


def _used(effect: Effect) -> str:
    return "" if effect.used is None else f" · used now: {effect.used:,}"


def _state_form(row: TenantRow) -> Markup:
    now, selected = row.standing.terms.state, Markup(" selected")
    options = markup.joined(
        Markup('<option value="{}"{}>{}</option>').format(state.value, selected if state is now else "", label)
        for state, label in (
            (TenantState.ACTIVE, "Active"),
            (TenantState.NO_NEW_JOBS, "No new jobs: reading and export go on"),
            (TenantState.SUSPENDED, "Suspended: nobody signs in, no key works"),
        )
    )
    return Markup(
        '<section class="card"><h2>State</h2><form class="admin-form" data-action="state" data-target="{}">'
        '<div class="fields"><label>State<select name="state">{}</select></label>'
        '<label>Reason, shown to the tenant<input name="reason" maxlength="300" value="{}" autocomplete="off"></label>'
        '</div><button class="button" id="set-state">Set the state</button></form></section>'
    ).format(row.id, options, row.standing.terms.state_reason or "")


def _delete_form(row: TenantRow, stored: Inventory) -> Markup:
    return Markup(
        '<section class="card danger-zone"><h2>Delete this tenant</h2><p>What goes, for good: {}. Pages that are being '
        "read are stopped. The ledger, the audit log and a record of this deletion stay.</p>"
        '<form class="admin-form" data-action="delete" data-target="{}"><label><span>Type its name, <b>{}</b>, to '
        'delete it</span><input name="name" required maxlength="100" autocomplete="off"></label>'
        '<button class="button danger" id="delete-tenant">Delete everything</button></form></section>'
    ).format(stored.words, row.id, row.name)


def one_time_password(name: str, password: str) -> Markup:
    """The only showing of a new owner's password."""
    return Markup(
        '<section class="new-key" role="status"><h2 tabindex="-1" data-focus>{} is made</h2>'
        "<p>The owner’s one-time password; it is not shown again.</p>"
        '<div class="secret"><code id="one-time-password">{}</code>{}</div></section>'
    ).format(name, password, markup.copy_button("one-time-password", "Copy"))


def deleted(name: str, gone: Inventory) -> Markup:
    """What went."""
    return markup.notice(f"{name} is deleted", f"Gone: {gone.words}.", tone="plain")
