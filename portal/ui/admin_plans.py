"""The tabs Requests, Plans and Dry run as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from markupsafe import Markup

from portal.domain import Limit
from portal.tenancy.dry_run import Verdict
from portal.ui import markup, words
from portal.usage.limit_values import LABELS, number_shown
from portal.usage.plans import PlanView
from portal.usage.quota_decisions import QuotaAsk

_SHOWN_REFUSALS = 20


def requests(asks: Sequence[QuotaAsk], now: datetime) -> Markup:
    """Requests for more: those that wait with their forms, then what was decided."""
    if not asks:
        return markup.empty("Nobody asks for more", "Requests that tenants make on their Usage page appear here.")
    waiting = [ask for ask in asks if ask.state == "open"]
    decided = [ask for ask in asks if ask.state != "open"]
    return Markup("{}{}").format(
        markup.joined(_waiting(ask, now) for ask in waiting),
        Markup('<section class="group"><h2>Decided</h2><ul class="entries">{}</ul></section>').format(
            markup.joined(_decided(ask, now) for ask in decided)
        )
        if decided
        else "",
    )


def _wish(ask: QuotaAsk) -> Markup:
    return Markup("{}: <b>{}</b>, has {}").format(LABELS[ask.limit], _number(ask.wanted), _number(ask.present))


def _number(value: float | None) -> str:
    return number_shown(value)


def _waiting(ask: QuotaAsk, now: datetime) -> Markup:
    return Markup(
        '<section class="card"><h2><a href="/admin?tenant={0}">{1}</a></h2><p>{2}</p><blockquote>{3}</blockquote>'
        '<p class="entry-facts">{4} · {5}</p><form class="admin-form" data-target="{6}" data-action="grant">'
        '<div class="fields"><label>Give<input name="value" value="{7}" maxlength="20" autocomplete="off"></label>'
        '<label>Until (UTC)<input name="until" type="datetime-local"></label>'
        '<label>Answer, shown to the tenant<input name="answer" maxlength="1000" autocomplete="off"></label></div>'
        '<div class="buttons"><button class="button" name="decision" value="decline">Decline</button>'
        '<button class="button primary" name="decision" value="grant">Grant</button></div></form></section>'
    ).format(
        ask.tenant_id,
        ask.tenant_name,
        _wish(ask),
        ask.reason,
        ask.member or "a member who left",
        markup.moment(ask.created_at, now),
        ask.id,
        "" if ask.wanted is None else f"{ask.wanted:g}",
    )


def _decided(ask: QuotaAsk, now: datetime) -> Markup:
    return Markup(
        '<li class="entry"><div class="entry-main"><b>{}</b><p class="entry-facts">{} · {}</p></div>'
        '<div class="entry-state">{}<small>{} {}</small></div></li>'
    ).format(
        ask.tenant_name,
        _wish(ask),
        ask.answer or "no words",
        markup.badge("active" if ask.state == "granted" else "failed", ask.state.capitalize()),
        ask.decided_by or "",
        markup.moment(ask.decided_at, now) if ask.decided_at else "",
    )


def plans(found: Sequence[PlanView]) -> Markup:
    """Each plan with its limits to be edited, and the form that makes one."""
    return Markup("{}{}").format(markup.joined(_plan(plan) for plan in found), _new_plan())


def _plan(plan: PlanView) -> Markup:
    default = (
        markup.badge("active", "Default")
        if plan.is_default
        else Markup(
            '<form class="admin-form" data-action="default-plan" data-target="{0}"><button class="button"'
            ' aria-label="Make {0} the default">Make it the default</button></form>'
        ).format(plan.name)
    )
    return Markup(
        '<section class="card"><div class="tenant-head"><h2>{0} <small>{1}</small></h2>{2}</div>'
        '<form class="admin-form" data-action="edit-plan" data-target="{0}">{3}'
        '<p class="hint">Holds at once for all that have the plan; limits of a tenant’s own stay.</p>'
        '<button class="button" aria-label="Change {0}">Change the plan</button></form></section>'
    ).format(
        plan.name,
        words.counted(plan.tenants, "tenant"),
        default,
        _fields({limit: number_shown(plan.limits.value(limit)) for limit in Limit}, plan.name),
    )


def _new_plan() -> Markup:
    return Markup(
        '<section class="card"><h2>New plan</h2><form class="admin-form" data-action="create-plan">'
        '<div class="fields"><label>Name<input name="name" required maxlength="60" autocomplete="off"></label></div>{}'
        '<p class="hint">What is left empty is as built in. <code>none</code> is no limit.</p>'
        '<button class="button primary" id="create-plan">Make the plan</button></form></section>'
    ).format(_fields(dict.fromkeys(Limit, "as built in"), "new plan"))


def _fields(present: Mapping[Limit, str], of: str) -> Markup:
    return Markup('<div class="fields">{}</div>').format(
        markup.joined(
            Markup(
                '<label>{0}<input name="{1}" placeholder="{2}" aria-label="{0}, {3}" maxlength="20" autocomplete="off">'
                "</label>"
            ).format(LABELS[limit].capitalize(), limit.value, shown, of)
            for limit, shown in present.items()
        )
    )


def dry_run_form(tenant_names: Sequence[tuple[str, str]]) -> Markup:
    """The limits to try on last week's traffic."""
    options = markup.joined(Markup('<option value="{}">{}</option>').format(*pair) for pair in tenant_names)
    limits = [Limit.PAGES_PER_DAY, Limit.PAGES_PER_MONTH, Limit.PAGES_IN_FLIGHT, Limit.REQUESTS_PER_MINUTE]
    return Markup(
        '<section class="card"><h2>Whom would other limits have refused?</h2><p>Last week’s requests are replayed '
        'against the limits that you write here. Nothing is changed.</p><form class="admin-form" data-action="dry-run">'
        '<div class="fields"><label>Tenant<select name="tenant"><option value="">All</option>{}</select></label></div>'
        '{}<button class="button primary" id="run-dry">Try it</button></form></section>'
    ).format(options, _fields(dict.fromkeys(limits, "as it is"), "to try"))


def verdicts(found: Sequence[Verdict]) -> Markup:
    """Whom the limits would have refused, when, and how many pages."""
    hit = [verdict for verdict in found if verdict.refused]
    came = sum(verdict.pages for verdict in found)
    title = (
        f"{words.counted(len(hit), 'tenant')} of {len(found)} would have been refused something"
        if hit
        else "Nobody would have been refused anything"
    )
    return Markup(
        '<section class="card preview" role="status"><h2 tabindex="-1" data-focus>{}</h2>'
        "<p>{} came in the last seven days. Times are UTC.</p>{}</section>"
    ).format(title, words.counted(came, "page"), markup.joined(_verdict(verdict) for verdict in hit))


def _verdict(verdict: Verdict) -> Markup:
    shown = verdict.refused[:_SHOWN_REFUSALS]
    lines = markup.joined(
        Markup("<li>{:%a %d %b %H:%M}: {}, over {}{}</li>").format(
            one.at,
            words.counted(one.pages, "page"),
            LABELS[one.limit],
            " (was refused then, too)" if one.was_refused else "",
        )
        for one in shown
    )
    more = len(verdict.refused) - len(shown)
    return Markup(
        '<details class="verdict"><summary><b>{}</b>: {} of {} refused, {} of which {} let in</summary><ul>{}</ul>{}'
        "</details>"
    ).format(
        verdict.tenant_name,
        words.counted(verdict.refused_pages, "page"),
        f"{verdict.pages:,}",
        f"{verdict.newly_refused_pages:,}",
        "was" if verdict.newly_refused_pages == 1 else "were",
        lines,
        f"and {more} more" if more else "",
    )
