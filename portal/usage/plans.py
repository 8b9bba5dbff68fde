"""Plans: named limits that tenants have. One is the default, for every tenant that was given no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from models import Plan, Tenant
from models.base import new_id
from portal import audit
from portal.audit import Actor, Outcome
from portal.db import Database, insert_into
from portal.domain import Limit
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.usage.limit_values import checked
from portal.usage.limits import DEFAULT_LIMITS, DEFAULT_PLAN, Limits, limits_of_plan

FOLLOW_DEFAULT = "default"
_RESERVED = frozenset({FOLLOW_DEFAULT, "plan", "none"})
_MAX_NAME_LENGTH = 60


@dataclass(frozen=True)
class PlanView:
    """A plan, and how many tenants have it now."""

    id: str
    name: str
    is_default: bool
    limits: Limits
    tenants: int


def ensure_default(database: Database) -> None:
    """Makes the plan `standard` with the built-in limits where no plan is the default. Any process may call it."""
    with database.reading() as session:
        if session.scalar(select(Plan.id).where(Plan.is_default)) is not None:
            return
    with database.transaction() as session:
        made = session.scalar(
            insert_into(session, Plan)
            .values(id=new_id("pla"), name=DEFAULT_PLAN, is_default=True, **asdict(DEFAULT_LIMITS))
            .on_conflict_do_nothing()
            .returning(Plan.id)
        )
        if made is not None:
            _record(session, "plan.created", "first start", DEFAULT_PLAN, Outcome(after=asdict(DEFAULT_LIMITS)))


def list_plans(session: Session) -> list[PlanView]:
    """All plans, the default first, then by name."""
    counts: dict[str, int] = {
        plan_id: number
        for plan_id, number in session.execute(
            select(Plan.id, func.count(Tenant.id))
            .join(Tenant, or_(Tenant.plan_id == Plan.id, Tenant.plan_id.is_(None) & Plan.is_default))
            .group_by(Plan.id)
        )
    }
    rows = session.scalars(select(Plan).order_by(Plan.is_default.desc(), Plan.name))
    return [_view(row, counts.get(row.id, 0)) for row in rows]


def find_plan(session: Session, name: str) -> Plan:
    """The plan's row. Raises NotFound (plan_unknown)."""
    row = session.scalars(select(Plan).where(Plan.name == name.strip())).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no plan named {name.strip()[:60]!r}.",
            code="plan_unknown",
            remedy="Choose one of the Plans tab, of /v1/admin/plans or of: python app.py admin list-plans",
        )
    return row


def create_plan(session: Session, actor: Actor, name: str, limits: Mapping[Limit, float | None]) -> PlanView:
    """Makes a plan; what `limits` leaves out is as built in. Raises InvalidRequest, Conflict (plan_name_taken)."""
    name = _checked_name(name)
    values = asdict(DEFAULT_LIMITS) | _checked(limits)
    made = session.scalar(
        insert_into(session, Plan)
        .values(id=new_id("pla"), name=name, is_default=False, **values)
        .on_conflict_do_nothing()
        .returning(Plan)
    )
    if made is None:
        raise Conflict(
            f"There is a plan named {name!r}.", code="plan_name_taken", remedy="Choose another name, or edit that plan."
        )
    _record(session, "plan.created", actor, name, Outcome(after=values))
    return _view(made, 0)


def edit_plan(session: Session, actor: Actor, name: str, limits: Mapping[Limit, float | None]) -> PlanView:
    """Changes limits of a plan, at once for every tenant that has it. Raises NotFound and InvalidRequest."""
    row, values = find_plan(session, name), _checked(limits)
    before = asdict(limits_of_plan(row))
    changed = {limit: value for limit, value in values.items() if before[limit] != value}
    for limit, value in changed.items():
        setattr(row, limit, value)
    if changed:
        session.flush()
        old = {limit: before[limit] for limit in changed}
        _record(session, "plan.changed", actor, row.name, Outcome(before=old, after=changed))
    return _view(row, _tenants_of(session, row))


def make_default(session: Session, actor: Actor, name: str) -> PlanView:
    """Makes the plan the one of every tenant that was given no other. Raises NotFound (plan_unknown)."""
    chosen = find_plan(session, name)
    former = session.scalars(select(Plan).where(Plan.is_default).with_for_update()).one_or_none()
    if former is not chosen:
        session.execute(update(Plan).where(Plan.is_default).values(is_default=False))
        chosen.is_default = True
        session.flush()
        moved = Outcome(before={"default": former.name if former else None}, after={"default": chosen.name})
        _record(session, "plan.made_default", actor, chosen.name, moved)
    return _view(chosen, _tenants_of(session, chosen))


def _view(row: Plan, tenants: int) -> PlanView:
    return PlanView(row.id, row.name, row.is_default, limits_of_plan(row), tenants)


def _tenants_of(session: Session, row: Plan) -> int:
    return next(plan.tenants for plan in list_plans(session) if plan.id == row.id)


def _checked(limits: Mapping[Limit, float | None]) -> dict[str, float | None]:
    return {limit.value: checked(limit, value) for limit, value in limits.items()}


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not 1 <= len(name) <= _MAX_NAME_LENGTH or not name.isprintable() or name.lower() in _RESERVED:
        raise InvalidRequest(
            f"A plan's name has 1 to {_MAX_NAME_LENGTH} printable characters and is none of {sorted(_RESERVED)}.",
            code="plan_name_invalid",
            remedy="Choose a short name such as team or archive.",
        )
    return name


def _record(session: Session, action: str, actor: Actor, name: str, outcome: Outcome) -> None:
    audit.record(session, action, actor=actor, target=f"plan {name}", outcome=outcome)
