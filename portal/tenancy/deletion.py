"""A tenant is deleted: running work stopped, everything it stored gone, and a record that says so.

Ledger, audit and deletion records stay: they name it by its id. It is done in steps, each of which may be the last
before a crash: work stopped and doors shut, files, rows with the record, what the database keeps of deleted rows,
files again. Asking again finishes it; what only files are left of is swept by the dispatcher (portal/jobs/sweep.py)
even if nobody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from models import ApiKey, DeletionRecord, Job, Member, Page, Reservation, SignInSession, Tenant
from models.base import Base, now
from portal import audit
from portal.accounts.naming import ADMIN_TENANT
from portal.audit import Actor, Outcome
from portal.db import Database
from portal.documents.storage import Storage
from portal.domain import JobState, PageState, TenantState
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.tenancy.inventory import Inventory, inventory_of
from portal.usage.ledger import return_rest

_KEPT = frozenset({"ledger_entries", "audit_entries", "deletion_records"})
_BEING_DELETED = "This tenant is being deleted."


def delete_tenant(database: Database, storage: Storage, actor: Actor, tenant_id: str, *, typed_name: str) -> Inventory:
    """Deletes the tenant and says what went.

    Raises NotFound (tenant_unknown), Conflict (admin_tenant), InvalidRequest (name_not_typed) when `typed_name` is
    not its name, and Unavailable when files cannot be removed: the tenant is shut by then; ask again.
    """
    with database.transaction() as session:
        gone = _shut(session, actor, tenant_id, typed_name)
    storage.delete_tenant(tenant_id)
    with database.transaction() as session:
        _delete_rows(session, actor, tenant_id, gone)
    database.forget_deleted()
    storage.delete_tenant(tenant_id)  # what a page being read wrote meanwhile
    return gone


def _shut(session: Session, actor: Actor, tenant_id: str, typed_name: str) -> Inventory:
    _lock_jobs(session, tenant_id)
    tenant = _held(session, tenant_id)
    if " ".join(typed_name.split()) != tenant.name:
        raise InvalidRequest(
            "The typed name is not the tenant's.",
            code="name_not_typed",
            remedy=f"Type exactly: {tenant.name}. Nothing was deleted.",
        )
    gone = inventory_of(session, tenant_id)
    tenant.state, tenant.state_reason = TenantState.SUSPENDED, _BEING_DELETED
    session.execute(delete(SignInSession).where(SignInSession.tenant_id == tenant_id))
    session.execute(
        update(ApiKey).where(ApiKey.tenant_id == tenant_id, ApiKey.revoked_at.is_(None)).values(revoked_at=now())
    )
    _stop_work(session, tenant_id)
    _record(session, "tenant.deletion_began", actor, tenant, **asdict(gone))
    return gone


def _held(session: Session, tenant_id: str) -> Tenant:
    tenant = session.scalars(select(Tenant).where(Tenant.id == tenant_id).with_for_update(key_share=True)).one_or_none()
    if tenant is None:
        raise NotFound("There is no such tenant.", code="tenant_unknown", remedy="It may have been deleted already.")
    has_admin = session.scalar(select(Member.id).where(Member.tenant_id == tenant_id, Member.is_admin).limit(1))
    if tenant.name == ADMIN_TENANT or has_admin is not None:
        raise Conflict(
            "This is the admin's own tenant.",
            code="admin_tenant",
            remedy="It cannot be deleted: the portal would have no admin.",
        )
    return tenant


def _lock_jobs(session: Session, tenant_id: str) -> None:
    # Before all else, as whoever stores a page does: another order would deadlock on Postgres.
    session.execute(select(Job.id).where(Job.tenant_id == tenant_id).order_by(Job.id).with_for_update()).all()


def _stop_work(session: Session, tenant_id: str) -> None:
    """Takes all unfinished pages from whoever works on them, and returns what is reserved for them."""
    at, unfinished = now(), (PageState.QUEUED, PageState.RUNNING)
    session.execute(
        update(Page)
        .where(Page.tenant_id == tenant_id, Page.state.in_(unfinished))
        .values(state=PageState.CANCELLED, claimed_by=None, finished_at=at)
        .execution_options(synchronize_session=False)
    )
    session.execute(
        update(Job)
        .where(Job.tenant_id == tenant_id, Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
        .values(state=JobState.CANCELLED, finished_at=at)
        .execution_options(synchronize_session=False)
    )
    for reservation_id in _locked_pending(session, tenant_id):
        return_rest(session, tenant_id, reservation_id, "tenant_deleted")


def _locked_pending(session: Session, tenant_id: str) -> Sequence[str]:
    # All of them before the first is returned: that takes the counters, for which whoever ends a request waits with
    # its reservation in hand.
    return session.scalars(
        select(Reservation.id)
        .where(Reservation.tenant_id == tenant_id, Reservation.closed_at.is_(None))
        .order_by(Reservation.id)
        .with_for_update()
    ).all()


def _delete_rows(session: Session, actor: Actor, tenant_id: str, gone: Inventory) -> None:
    _lock_jobs(session, tenant_id)
    tenant = _held(session, tenant_id)
    _stop_work(session, tenant_id)  # of a submission that was under way when the doors were shut
    session.flush()
    name, created_at = tenant.name, tenant.created_at.isoformat()
    for table in reversed(Base.metadata.sorted_tables):
        if "tenant_id" in table.c and table.name not in _KEPT:
            session.execute(delete(table).where(table.c.tenant_id == tenant_id))
    session.execute(delete(Tenant).where(Tenant.id == tenant_id).execution_options(synchronize_session=False))
    session.add(
        DeletionRecord(
            tenant_id=tenant_id,
            kind="tenant",
            target=tenant_id,
            reason="admin",
            actor=audit.label_of(actor),
            gone=asdict(gone),
        )
    )
    before = {"name": name, "created_at": created_at}
    audit.record(
        session,
        "tenant.deleted",
        actor=actor,
        tenant_id=tenant_id,
        target=tenant_id,
        outcome=Outcome(before=before),
        **asdict(gone),
    )


def _record(session: Session, action: str, actor: Actor, tenant: Tenant, **details: Any) -> None:
    audit.record(session, action, actor=actor, tenant_id=tenant.id, target=tenant.id, name=tenant.name, **details)
