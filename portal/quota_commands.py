"""`app.py admin set-quota` and its kin: plans, and what one tenant has instead. Changes hold at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from portal.accounts import tenants
from portal.domain import Limit
from portal.errors import InvalidRequest
from portal.shell import opened, print_table, say
from portal.usage import limit_edits, plans
from portal.usage.limit_edits import LimitEdit
from portal.usage.limit_effects import Effect
from portal.usage.limit_values import FOLLOW_PLAN, LABELS, WEIGHTS, LimitChoice, number_shown, parsed, shown

quotas = typer.Typer()

_TAKES = "a whole number, none (no limit) or plan (the plan's again)"
TenantOption = Annotated[str, typer.Option("--tenant", help="The tenant's name")]
PlanNameOption = Annotated[str, typer.Option("--name", help="The plan's name")]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why, for the tenant's history and the audit log")]
_OPTIONS = {limit: f"--{limit.value.replace('_', '-')}" for limit in Limit}


def _taking_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Adds an option for each limit; the command gets what was given as `limits`, parsed."""

    def taking(**given: Any) -> None:
        written = {limit: given.pop(limit.value) for limit in Limit}
        command(limits={limit: text for limit, text in written.items() if text is not None}, **given)

    own = [part for part in signature(command, eval_str=True).parameters.values() if part.name != "limits"]
    options = [_option(limit) for limit in Limit]
    taking.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    taking.__annotations__ = {part.name: part.annotation for part in [*own, *options]}
    taking.__doc__ = command.__doc__
    return taking


def _option(limit: Limit) -> Parameter:
    takes = f"share when engines are full, {WEIGHTS}" if limit is Limit.WEIGHT else _TAKES
    annotation = Annotated[str | None, typer.Option(_OPTIONS[limit], help=f"{LABELS[limit]}: {takes}")]
    return Parameter(limit.value, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


@quotas.command("set-quota")
@_taking_limits
def set_quota(
    *,
    tenant: TenantOption,
    limits: Mapping[Limit, str],
    reason: ReasonOption = None,
    until: Annotated[str | None, typer.Option("--until", help="End of it, ISO 8601, UTC if it names no zone")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do")] = False,
) -> None:
    """Give a tenant limits of its own, and say what changes. What is left out stays."""
    with opened() as (_, database):
        if not limits:
            raise InvalidRequest(
                "No limit was given, so nothing was changed.",
                remedy=f"Name one or more: {', '.join(_OPTIONS.values())}.",
            )
        edit = LimitEdit(limits=_choices(limits), reason=reason, until=_moment(until))
        with database.transaction() as session:
            tenant_id = tenants.owner_of(session, tenant).tenant_id
            if dry_run:
                effects = limit_edits.preview(session, tenant_id, edit).effects
            else:
                effects = limit_edits.change(session, tenants.OPERATOR, tenant_id, edit).effects
    _say_effects(effects)


@quotas.command("set-plan")
def set_plan(
    tenant: TenantOption,
    plan: Annotated[str, typer.Option("--plan", help="A plan's name, or default")],
    reason: ReasonOption = None,
) -> None:
    """Give a tenant another plan. Limits of its own stay."""
    with opened() as (_, database), database.transaction() as session:
        tenant_id = tenants.owner_of(session, tenant).tenant_id
        made = limit_edits.change(session, tenants.OPERATOR, tenant_id, LimitEdit(plan=plan, reason=reason))
    _say_effects(made.effects)


@quotas.command("set-time-zone")
def set_time_zone(
    tenant: TenantOption, zone: Annotated[str, typer.Option("--zone", help="An IANA name such as Europe/Berlin")]
) -> None:
    """Say where a tenant's days and months begin at midnight."""
    with opened() as (_, database), database.transaction() as session:
        tenant_id = tenants.owner_of(session, tenant).tenant_id
        made = limit_edits.change(session, tenants.OPERATOR, tenant_id, LimitEdit(time_zone=zone))
    _say_effects(made.effects)


@quotas.command("list-plans")
def list_plans() -> None:
    """List plans with their limits, and how many tenants have each; * marks the default."""
    with opened() as (_, database):
        plans.ensure_default(database)
        with database.reading() as session:
            found = plans.list_plans(session)
    heads = ("PLAN", "TENANTS", *(limit.value.upper() for limit in Limit))
    rows = [
        (
            f"{plan.name}{' *' if plan.is_default else ''}",
            str(plan.tenants),
            *(number_shown(plan.limits.value(limit)).replace(",", "").replace("no limit", "none") for limit in Limit),
        )
        for plan in found
    ]
    print_table(heads, rows)


@quotas.command("create-plan")
@_taking_limits
def create_plan(
    *,
    name: PlanNameOption,
    limits: Mapping[Limit, str],
    default: Annotated[bool, typer.Option("--default", help="For all that were given no other")] = False,
) -> None:
    """Make a plan, or change the limits of one with this name. What is left out is as built in, or stays."""
    with opened() as (_, database):
        values = _plan_limits(_choices(limits))
        plans.ensure_default(database)
        with database.transaction() as session:
            exists = any(plan.name == name for plan in plans.list_plans(session))
            (plans.edit_plan if exists else plans.create_plan)(session, tenants.OPERATOR, name, values)
            if default:
                plans.make_default(session, tenants.OPERATOR, name)
    say(f"Plan '{name}' is {'changed' if exists else 'made'}.")


def _choices(written: Mapping[Limit, str]) -> dict[Limit, LimitChoice]:
    return {limit: parsed(limit, text) for limit, text in written.items()}


def _plan_limits(choices: Mapping[Limit, LimitChoice]) -> dict[Limit, float | None]:
    limits: dict[Limit, float | None] = {}
    for limit, choice in choices.items():
        if choice == FOLLOW_PLAN:
            raise InvalidRequest(
                "A plan's limit cannot follow a plan.", code="limit_invalid", remedy="Give a number, or none."
            )
        limits[limit] = choice
    return limits


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequest(
            f"{text[:40]!r} is not a moment.", code="limit_until_invalid", remedy="Write it like 2026-12-24T18:00."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _say_effects(effects: tuple[Effect, ...]) -> None:
    if not effects:
        say("Nothing differs.")
    for effect in effects:
        say(f"{effect.label}: {_value(effect, effect.old)} → {_value(effect, effect.new)}. {effect.words}")


def _value(effect: Effect, value: float | str | None) -> str:
    return value if isinstance(value, str) else shown(Limit(effect.subject), value)
