"""The tabs Audit and Overview as HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from models import AuditEntry
from portal.tenancy.overview import Overview
from portal.ui import charts, markup, usage_words, words

_FIELDS = (
    ("since", "From (UTC)", "datetime-local"),
    ("until", "Before (UTC)", "datetime-local"),
    ("actor", "Who", "text"),
    ("action", "What (api_key. takes all of keys)", "text"),
    ("target", "To what (an id)", "text"),
    ("tenant", "Tenant (name or id)", "text"),
    ("request_id", "Request id", "text"),
)
_NOTHING = Markup("")


def audit(
    entries: Sequence[AuditEntry], names: Mapping[str, str], asked: Mapping[str, str], *, has_more: bool, now: datetime
) -> Markup:
    """The filters, the entries they leave, the way to older ones and to the file."""
    listed = markup.joined(_entry(entry, names, now) for entry in entries)
    body = (
        Markup('<ul class="entries audit">{}</ul>').format(listed)
        if entries
        else markup.empty("No entry", "Nothing in the log is like this.")
    )
    older = Markup("")
    if has_more:
        query = urlencode({"tab": "audit", **{k: v for k, v in asked.items() if v}, "before": entries[-1].id})
        older = Markup('<p class="paging"><a class="button" href="/admin?{}">Older</a></p>').format(query)
    return Markup("{}{}{}").format(_filter_form(asked), body, older)


def _filter_form(asked: Mapping[str, str]) -> Markup:
    fields = markup.joined(
        Markup('<label>{}<input type="{}" name="{}" value="{}" maxlength="254" autocomplete="off"></label>').format(
            label, kind, name, asked.get(name, "")
        )
        for name, label, kind in _FIELDS
    )
    options = markup.joined(
        Markup('<option value="{}"{}>{}</option>').format(
            value, Markup(" selected") if asked.get("result", "") == value else "", label
        )
        for value, label in (("", "Any"), ("ok", "Done"), ("refused", "Refused"))
    )
    query = urlencode({name: value for name, value in asked.items() if value and name != "before"})
    return Markup(
        '<form class="admin-form card" action="/admin" method="get"><input type="hidden" name="tab" value="audit">'
        '<div class="fields">{}<label>Result<select name="result">{}</select></label></div><div class="buttons">'
        '<a class="button" href="/files/admin/audit.csv{}" download id="audit-csv">CSV</a>'
        '<a class="button" href="/admin?tab=audit">Clear</a>'
        '<button class="button primary" id="filter-audit">Filter</button></div></form>'
    ).format(fields, options, f"?{query}" if query else "")


def _entry(entry: AuditEntry, names: Mapping[str, str], now: datetime) -> Markup:
    tenant = names.get(entry.tenant_id or "", entry.tenant_id)
    about = [
        ("target", entry.target),
        ("tenant", tenant),
        ("from", entry.address),
        ("request", entry.request_id),
        *((name, _plain(value)) for name, value in entry.details.items() if value is not None),
    ]
    return Markup(
        '<li class="entry audit-entry"><div class="entry-main"><b><code>{}</code></b> {} <span>{}</span>'
        '<p class="entry-facts">{}</p>{}</div><div class="entry-state"><small>{}</small></div></li>'
    ).format(
        entry.action,
        markup.badge("failed", "Refused") if entry.result == "refused" else "",
        entry.actor,
        " · ".join(f"{name} {value}" for name, value in about if value not in (None, "")),
        _change(entry.before, entry.after),
        markup.moment(entry.at, now),
    )


def _change(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Markup:
    names = [*(before or {}), *(name for name in after or {} if name not in (before or {}))]
    if not names:
        return Markup("")
    return Markup('<ul class="effects">{}</ul>').format(
        markup.joined(
            Markup("<li>{}: {} → <b>{}</b></li>").format(
                name, _plain((before or {}).get(name)), _plain((after or {}).get(name))
            )
            for name in names
        )
    )


def _plain(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def overview(found: Overview) -> Markup:
    """The queue, then the plots: pages and refusals by day, pages by tenant."""
    waits = "nothing waits" if found.oldest_seconds is None else f"the oldest {words.duration(found.oldest_seconds)}"
    queue = Markup(
        '<dl class="figures"><div><dt>Pages waiting</dt><dd>{} <small>{}</small></dd></div>'
        "<div><dt>Being read</dt><dd>{}</dd></div></dl>"
    ).format(f"{found.queued_pages:,}", waits, f"{found.running_pages:,}")
    rows = [
        (usage_words.day_name(day.day), f"{day.charged:,}", f"{day.refused_requests:,}") for day in reversed(found.days)
    ]
    return Markup("{}{}{}{}{}").format(
        charts.PATTERNS,
        queue,
        _plot("Charged pages by day", [(day.day, day.charged) for day in found.days], ("charged", "page")),
        _plot(
            "Refused requests by day",
            [(day.day, day.refused_requests) for day in found.days],
            ("refused", "request"),
            charts.table(("Day", "Charged", "Refused requests"), rows, caption="Pages and refused requests by day"),
        ),
        _by_tenant(found.tenants),
    )


def _plot(title: str, days: Sequence[tuple[str, int]], kind: tuple[str, str], table: Markup = _NOTHING) -> Markup:
    """`kind` is the series and what it counts."""
    series, noun = kind
    total, highest = sum(count for _, count in days), max((count for _, count in days), default=0)
    said = f"{words.counted(total, noun)} in {len(days)} days, at most {highest:,} in one"
    named = [(usage_words.day_name(day), count) for day, count in days]
    found = [charts.Column(day, (count,), f"{day}: {words.counted(count, noun)}") for day, count in named]
    return Markup('<section class="card"><h2>{} <small>{}</small></h2>{}{}</section>').format(
        title, said, charts.columns(found, (series,), title=f"{title}: {said}."), table
    )


def _by_tenant(tenants: Sequence[tuple[str, int]]) -> Markup:
    if not tenants:
        return _NOTHING
    top = tenants[0][1] or 1
    rows = markup.joined(
        Markup("<li><span>{}</span>{}<b>{}</b></li>").format(name, charts.bar(pages / top), f"{pages:,}")
        for name, pages in tenants
    )
    return Markup(
        '<section class="card"><h2>Charged pages by tenant, 30 days</h2><ul class="by-tenant">{}</ul></section>'
    ).format(rows)
