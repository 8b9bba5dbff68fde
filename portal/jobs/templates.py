"""Templates of fields: those that everybody has, and a tenant's own, which are saved in versions that never change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from models import FieldTemplate
from models.base import now
from portal import audit
from portal.accounts.authority import lock_tenant
from portal.accounts.standing import refuse_ended_key
from portal.domain import FieldSpec, Principal, Scope, TemplateRef
from portal.engine.fields.specs import checked, specs_to_json, stored_specs
from portal.engine.fields.templates import BUILT_IN, TITLES, VERSION
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound
from portal.jobs.context import JobContext

MAX_TEMPLATES = 100
_NAME = re.compile(r"\w[\w .-]{0,58}\w|\w")


@dataclass(frozen=True)
class Template:
    """A template at one version. `created_at` is None for those that everybody has."""

    name: str
    title: str
    version: int
    specs: tuple[FieldSpec, ...]
    created_at: datetime | None = None

    @property
    def is_built_in(self) -> bool:
        """True for those that everybody has."""
        return self.created_at is None

    @property
    def ref(self) -> TemplateRef:
        """What a run records."""
        return TemplateRef(self.name, self.version)


def list_templates(context: JobContext, tenant_id: str) -> list[Template]:
    """Those that everybody has, then the tenant's own by name, each at its newest version."""
    with context.database.reading() as session:
        rows = session.scalars(_newest(tenant_id).order_by(FieldTemplate.name)).all()
    return [*_built_in(), *map(_template, rows)]


def get_template(context: JobContext, tenant_id: str, name: str) -> Template:
    """The newest version of the template of that name. Raises NotFound."""
    if name in BUILT_IN:
        return Template(name, TITLES[name], VERSION, BUILT_IN[name])
    with context.database.reading() as session:
        row = session.scalars(_newest(tenant_id).where(FieldTemplate.name == name)).one_or_none()
    if row is None:
        raise _unknown(name)
    return _template(row)


def save_template(context: JobContext, principal: Principal, name: str, specs: Sequence[FieldSpec]) -> Template:
    """Saves the specs as the next version of the tenant's template; unchanged ones make no new version.

    Raises Forbidden, InvalidRequest for a name or specs that cannot be, Conflict when there are too many, and
    Unauthenticated when the key that asks has ended.
    """
    _require_ocr(principal)
    name, rows = _checked_name(name), specs_to_json(checked(specs))
    if not rows:
        raise InvalidRequest("A template needs at least one field.", remedy="Add a row.")
    with context.database.transaction() as session:
        lock_tenant(session, principal.tenant_id)  # two at once would give out the same version
        refuse_ended_key(session, principal)
        newest = session.scalars(_newest(principal.tenant_id).where(FieldTemplate.name == name)).one_or_none()
        if newest is not None and newest.rows == rows:
            return _template(newest)
        row = _next_version(session, principal, name, rows, is_new=newest is None)
        _record(session, principal, "template.saved", name, version=row.version)
    return _template(row)


def delete_template(context: JobContext, principal: Principal, name: str) -> None:
    """Takes the tenant's template away; runs that used it keep their fields.

    Raises Forbidden, NotFound, Conflict, and Unauthenticated when the key that asks has ended.
    """
    _require_ocr(principal)
    if name in BUILT_IN:
        raise Conflict(f"'{name}' is one of the templates that everybody has.", remedy="Only your own can be deleted.")
    with context.database.transaction() as session:
        refuse_ended_key(session, principal)
        gone = session.execute(
            update(FieldTemplate)
            .where(
                FieldTemplate.tenant_id == principal.tenant_id,
                FieldTemplate.name == name,
                FieldTemplate.deleted_at.is_(None),
            )
            .values(deleted_at=now())
            .returning(FieldTemplate.id)
        ).all()
        if not gone:
            raise _unknown(name)
        _record(session, principal, "template.deleted", name, versions=len(gone))


def _unknown(name: str) -> NotFound:
    return NotFound(f"There is no template '{name}'.", remedy="Choose one of the list; it may have been deleted.")


def _built_in() -> list[Template]:
    return [Template(name, TITLES[name], VERSION, specs) for name, specs in BUILT_IN.items()]


def _newest(tenant_id: str) -> Select[FieldTemplate]:
    """The newest version of each template of the tenant that is not deleted."""
    own = (FieldTemplate.tenant_id == tenant_id, FieldTemplate.deleted_at.is_(None))
    newest = (
        select(FieldTemplate.name, func.max(FieldTemplate.version).label("version"))
        .where(*own)
        .group_by(FieldTemplate.name)
        .subquery()
    )
    return (
        select(FieldTemplate)
        .join(newest, (newest.c.name == FieldTemplate.name) & (newest.c.version == FieldTemplate.version))
        .where(*own)
    )


def _next_version(
    session: Session, principal: Principal, name: str, rows: list[dict[str, object]], *, is_new: bool
) -> FieldTemplate:
    own = FieldTemplate.tenant_id == principal.tenant_id
    names = session.scalar(
        select(func.count(func.distinct(FieldTemplate.name))).where(own, FieldTemplate.deleted_at.is_(None))
    )
    if is_new and (names or 0) >= MAX_TEMPLATES:
        raise Conflict(f"Your tenant has {MAX_TEMPLATES} templates already.", remedy="Delete one that is not used.")
    last = session.scalar(select(func.max(FieldTemplate.version)).where(own, FieldTemplate.name == name))
    row = FieldTemplate(
        tenant_id=principal.tenant_id, name=name, version=(last or 0) + 1, rows=rows, member_id=principal.member_id
    )
    session.add(row)
    session.flush()
    return row


def _template(row: FieldTemplate) -> Template:
    return Template(row.name, row.name, row.version, stored_specs(row.rows), row.created_at)


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "The template's name has 1 to 60 letters, digits, spaces, '.', '_' or '-'.", remedy="Choose another name."
        )
    if name in BUILT_IN or name in TITLES.values():
        raise InvalidRequest(f"'{name}' is the name of a template that everybody has.", remedy="Choose another name.")
    return name


def _require_ocr(principal: Principal) -> None:
    if Scope.OCR not in principal.scopes:
        raise Forbidden("This key may not change templates.", remedy="Use a key with the scope 'ocr'.")


def _record(session: Session, principal: Principal, action: str, name: str, **details: Any) -> None:
    audit.record(
        session,
        action,
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=name,
        address=principal.address,
        **details,
    )
