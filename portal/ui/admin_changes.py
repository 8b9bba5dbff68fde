"""What was changed of a tenant's limits, by whom, and the way back, as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from models import LimitChange
from portal.domain import Limit
from portal.ui import markup
from portal.usage.limit_edits import may_undo
from portal.usage.limit_values import LABELS, number_shown


def changes(tenant_id: str, made: Sequence[LimitChange], plan_names: Mapping[str, str], now: datetime) -> Markup:
    """The changes as they are given, each with what it changed; nothing where there were none.

    `plan_names` are by the plans' ids, as they are called now.
    """
    if not made:
        return Markup("")
    lines = markup.joined(
        Markup("<li><div>{}<small>{} by {}{}</small></div>{}</li>").format(
            markup.joined(Markup("<p>{}</p>").format(line) for line in _told(change, plan_names)),
            markup.moment(change.changed_at, now),
            change.changed_by,
            f": {change.reason}" if change.reason else "",
            _undo(tenant_id, change, now),
        )
        for change in made
    )
    return Markup('<section class="card"><h2>Changes of its limits</h2><ul class="changes">{}</ul></section>').format(
        lines
    )


def _told(change: LimitChange, plan_names: Mapping[str, str]) -> Iterator[str]:
    """`pages a day: as the plan → 420, until 2026-12-31 (UTC)`, a line for each thing that differs."""
    before, after = change.before, change.after
    if before["plan_id"] != after["plan_id"]:
        yield f"plan: {_plan(before['plan_id'], plan_names)} → {_plan(after['plan_id'], plan_names)}"
    if before["time_zone"] != after["time_zone"]:
        yield f"time zone: {before['time_zone']} → {after['time_zone']}"
    for limit in Limit:
        old, new = (_value(state["limits"].get(limit.value)) for state in (before, after))
        if old != new:
            yield f"{LABELS[limit]}: {old} → {new}"


def _plan(plan_id: str | None, names: Mapping[str, str]) -> str:
    return "the default" if plan_id is None else names.get(plan_id, "one that is no more")


def _value(own: Mapping[str, Any] | None) -> str:
    """A limit of the tenant's own; None where it has the plan's."""
    if own is None:
        return "as the plan"
    shown = number_shown(own["value"])
    return f"{shown}, until {datetime.fromisoformat(own['until']):%Y-%m-%d %H:%M} (UTC)" if own["until"] else shown


def _undo(tenant_id: str, change: LimitChange, now: datetime) -> Markup:
    if change.undone_at is not None:
        return Markup("<small>undone</small>")
    if not may_undo(change, at=now):
        return Markup("")
    return Markup(
        '<form class="admin-form" data-action="undo" data-target="{}"><input type="hidden" name="change" value="{}">'
        '<button class="button">Undo</button></form>'
    ).format(tenant_id, change.id)
