"""An admin changes what one tenant may use: seen before it is done, done as it was seen, undone within ten minutes.

A change is the tenant's own limits, its plan or its time zone. It works at once, in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from models import LimitChange, Tenant, TenantLimit
from models.base import new_id, now, within_calendar
from portal import audit
from portal.audit import Actor, Outcome
from portal.domain import Limit
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.usage.counters import counters_of
from portal.usage.limit_effects import Effect, effects
from portal.usage.limit_snapshots import Snapshot, fingerprint, restore, snapshot, without_notes
from portal.usage.limit_values import FOLLOW_PLAN, LimitChoice, checked
from portal.usage.limits import Terms, terms_of
from portal.usage.periods import checked_time_zone, period_at
from portal.usage.plans import FOLLOW_DEFAULT, find_plan

UNDO_FOR = timedelta(minutes=10)
MAX_REASON_LENGTH = 300


@dataclass(frozen=True)
class LimitEdit:
    """What is to be changed. A limit is a number, None (no limit) or "plan" (the plan's again).

    `plan` is a plan's name or "default", None leaves it; so does None of `time_zone`. `until` (aware) ends the
    numbers given here: the plan's hold again then.
    """

    limits: Mapping[Limit, LimitChoice] = field(default_factory=dict)
    plan: str | None = None
    time_zone: str | None = None
    reason: str | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Preview:
    """What a change would do: old and new of everything that differs, and its effect in words.

    `seen` stands for the state that was looked at: given to `change`, it refuses when somebody changed that meanwhile.
    """

    tenant_id: str
    tenant_name: str
    effects: tuple[Effect, ...]
    seen: str


@dataclass(frozen=True)
class Change:
    """One change that was made: by whom, when, why, and what differs. `id` is None when nothing differed."""

    id: str | None
    effects: tuple[Effect, ...]
    undo_until: datetime | None = None


def preview(session: Session, tenant_id: str, edit: LimitEdit, *, at: datetime | None = None) -> Preview:
    """What the edit would do, changing nothing: it is done in a savepoint, which is rolled back.

    The session must be a writing one. Raises what `change` raises.
    """
    at = at or now()
    tenant = _locked(session, tenant_id)
    before, name = snapshot(session, tenant), tenant.name
    savepoint = session.begin_nested()
    try:
        found = _applied(session, tenant, edit, "preview", at)
    finally:
        savepoint.rollback()
        session.refresh(tenant)
    return Preview(tenant_id, name, found, fingerprint(before))


def change(
    session: Session,
    actor: Actor,
    tenant_id: str,
    edit: LimitEdit,
    *,
    seen: str | None = None,
    at: datetime | None = None,
) -> Change:
    """Makes the edit, with a row that can undo it and an audit entry; nothing of both where nothing differs.

    Raises NotFound (tenant_unknown, plan_unknown), InvalidRequest (limit_invalid, limit_until_invalid,
    time_zone_unknown, reason_too_long) and Conflict (limits_changed) when `seen` is no longer so.
    """
    at = at or now()
    tenant = _locked(session, tenant_id)
    before = snapshot(session, tenant)
    if seen is not None and seen != fingerprint(before):
        raise _changed_meanwhile("Look at the effect again, then confirm.")
    found = _applied(session, tenant, edit, audit.label_of(actor), at)
    after = snapshot(session, tenant)
    if without_notes(after) == without_notes(before):
        return Change(None, ())
    row = LimitChange(
        id=new_id("chg"),
        tenant_id=tenant_id,
        before=before,
        after=after,
        reason=_checked_reason(edit.reason),
        changed_by=audit.label_of(actor),
        changed_at=at,
    )
    session.add(row)
    _record(session, "limits.changed", actor, row, found)
    return Change(row.id, found, at + UNDO_FOR)


def undo(session: Session, actor: Actor, tenant_id: str, change_id: str, *, at: datetime | None = None) -> Change:
    """Puts back what stood before the change; counters stay as they are.

    Raises NotFound (change_unknown) and Conflict (undo_too_late, limits_changed, change_undone).
    """
    at = at or now()
    tenant = _locked(session, tenant_id)
    row = session.scalars(
        select(LimitChange).where(LimitChange.tenant_id == tenant_id, LimitChange.id == change_id)
    ).one_or_none()
    if row is None:
        raise NotFound("The tenant has no such change.", code="change_unknown")
    _refuse_undo(row, snapshot(session, tenant), at)
    old = terms_of(session, tenant_id, at=at)
    restore(session, tenant, row.before)
    row.undone_at = at
    session.flush()
    found = _differences(session, tenant_id, old, at)
    _record(session, "limits.undone", actor, row, found)
    return Change(row.id, found)


def recent_changes(session: Session, tenant_id: str, *, most: int = 20) -> list[LimitChange]:
    """The tenant's latest changes, newest first."""
    rows = select(LimitChange).where(LimitChange.tenant_id == tenant_id).order_by(LimitChange.changed_at.desc())
    return list(session.scalars(rows.limit(most)))


def may_undo(row: LimitChange, *, at: datetime | None = None) -> bool:
    """True within the ten minutes; whether something changed since is known only when it is tried."""
    return row.undone_at is None and row.changed_at + UNDO_FOR > (at or now())


def _applied(session: Session, tenant: Tenant, edit: LimitEdit, by: str, at: datetime) -> tuple[Effect, ...]:
    old = terms_of(session, tenant.id, at=at)
    reason, until = _checked_reason(edit.reason), _checked_until(edit, at)
    if edit.plan is not None:
        tenant.plan_id = None if edit.plan == FOLLOW_DEFAULT else find_plan(session, edit.plan).id
    if edit.time_zone is not None:
        tenant.time_zone = checked_time_zone(edit.time_zone)
    for limit, choice in edit.limits.items():
        value = choice if choice == FOLLOW_PLAN else checked(limit, choice)
        if value == FOLLOW_PLAN:
            _drop(session, tenant.id, limit)
        else:
            row = TenantLimit(
                tenant_id=tenant.id, name=limit.value, value=value, until=until, reason=reason, set_by=by, set_at=at
            )
            session.merge(row)
    session.flush()
    return _differences(session, tenant.id, old, at)


def _drop(session: Session, tenant_id: str, limit: Limit) -> None:
    session.execute(delete(TenantLimit).where(TenantLimit.tenant_id == tenant_id, TenantLimit.name == limit.value))


def _differences(session: Session, tenant_id: str, old: Terms, at: datetime) -> tuple[Effect, ...]:
    new = terms_of(session, tenant_id, at=at)
    counters = counters_of(session, tenant_id, period_at(at, old.time_zone))
    return effects(old, new, counters, at=at)


def _refuse_undo(row: LimitChange, present: Snapshot, at: datetime) -> None:
    if row.undone_at is not None:
        raise Conflict("The change was undone already.", code="change_undone")
    if row.changed_at + UNDO_FOR <= at:
        raise Conflict(
            "A change can be undone for ten minutes only.",
            code="undo_too_late",
            remedy="Set the former values by a new change; the history shows them.",
        )
    if without_notes(present) != without_notes(row.after):
        raise _changed_meanwhile("Set the values that you want by a new change.")


def _changed_meanwhile(remedy: str) -> Conflict:
    return Conflict("Somebody changed this tenant's limits meanwhile.", code="limits_changed", remedy=remedy)


def _record(session: Session, action: str, actor: Actor, row: LimitChange, found: tuple[Effect, ...]) -> None:
    audit.record(
        session,
        action,
        actor=actor,
        tenant_id=row.tenant_id,
        target=row.tenant_id,
        outcome=Outcome(
            before={effect.subject: effect.old for effect in found},
            after={effect.subject: effect.new for effect in found},
        ),
        change=row.id,
        reason=row.reason,
        until=_latest_end(row.after),
    )


def _latest_end(state: Snapshot) -> str | None:
    return max((own["until"] for own in state["limits"].values() if own["until"]), default=None)


def _locked(session: Session, tenant_id: str) -> Tenant:
    tenant = session.scalars(select(Tenant).where(Tenant.id == tenant_id).with_for_update(key_share=True)).one_or_none()
    if tenant is None:
        raise NotFound("There is no such tenant.", code="tenant_unknown")
    return tenant


def _checked_reason(reason: str | None) -> str | None:
    reason = " ".join((reason or "").split()) or None
    if reason is not None and len(reason) > MAX_REASON_LENGTH:
        raise InvalidRequest(
            f"The reason has {len(reason)} characters.",
            code="reason_too_long",
            remedy=f"Write at most {MAX_REASON_LENGTH} characters.",
        )
    return reason


def _checked_until(edit: LimitEdit, at: datetime) -> datetime | None:
    if edit.until is None:
        return None
    if not any(choice != FOLLOW_PLAN for choice in edit.limits.values()):
        raise _until_invalid("An end needs a limit that it ends.", "Give a limit too, or leave the end out.")
    if edit.until.tzinfo is None or edit.until <= at:
        raise _until_invalid("The end of a change lies in the future.", "Give a later moment, with its time zone.")
    return within_calendar(edit.until)


def _until_invalid(message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(message, code="limit_until_invalid", remedy=remedy)
