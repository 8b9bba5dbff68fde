from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from sqlalchemy import func, select

from models import (
    ApiKey,
    AuditEntry,
    DeletionRecord,
    Invite,
    LedgerEntry,
    QuotaRequest,
    RefusalCount,
    Reservation,
    SignInSession,
    Tenant,
    UsageNotice,
)
from models.base import Base, now
from portal.db import Database
from portal.domain import Limit, PageState, Principal
from portal.engine import fakes
from portal.engine.fields.specs import specs_from_names
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.jobs import claims
from portal.jobs.claims import Ending
from portal.jobs.submission import Order, submit
from portal.jobs.templates import save_template
from portal.tenancy.deletion import delete_tenant
from portal.usage import limit_edits
from portal.usage.admission import Ask, reserve
from portal.usage.limit_edits import LimitEdit
from portal.usage.request_ends import end_request
from tests.jobs.conftest import Bench, left_of
from tests.locks import meanwhile

KEPT = {"ledger_entries", "audit_entries", "deletion_records"}
TENANT_TABLES = {table.name for table in Base.metadata.sorted_tables if "tenant_id" in table.c}


def _fill(bench: Bench, who: Principal) -> None:
    """A row in each table that a tenant can have rows in, but for pages and what belongs to them."""
    with bench.context.database.transaction() as session:
        key = ApiKey(tenant_id=who.tenant_id, member_id=who.member_id, name="k", prefix=who.tenant_id[:16])
        key.key_hash, key.pepper_id, key.scopes = "-", "-", "ocr"
        session.add(key)
        opened = SignInSession(token_hash=who.tenant_id, tenant_id=who.tenant_id, expires_at=now())
        opened.member_id = str(who.member_id)
        session.add(opened)
        session.add(UsageNotice(tenant_id=who.tenant_id, limit_name="weight", period="2026-11", percent=50))
        session.add(RefusalCount(tenant_id=who.tenant_id, day="2026-11-30", code="-", limit_name="-"))
        invite = Invite(tenant_id=who.tenant_id, token_hash=who.tenant_id, role="member", created_by="a")
        invite.expires_at = now()
        session.add(invite)
        session.add(QuotaRequest(tenant_id=who.tenant_id, member_id=who.member_id, limit_name="weight", reason="more"))
        limit_edits.change(session, "a", who.tenant_id, LimitEdit(limits={Limit.PAGES_PER_DAY: 40}))
    save_template(bench.context, who, "notes", specs_from_names(("weight",)))


def _rows(database: Database, tenant_id: str) -> dict[str, int]:
    with database.reading() as session:
        found = {
            name: session.scalar(select(func.count()).where(Base.metadata.tables[name].c.tenant_id == tenant_id)) or 0
            for name in TENANT_TABLES
        }
    return {name: rows for name, rows in found.items() if rows}


def _files(bench: Bench, tenant_id: str) -> list[Path]:
    return [path for path in (bench.folder / "data").rglob("*") if tenant_id in str(path)]


def test_every_table_that_refers_to_a_tenant_or_member_names_the_tenant() -> None:
    for table in Base.metadata.sorted_tables:
        if {key.column.table.name for key in table.foreign_keys} & {"tenants", "members", "jobs", "pages", "documents"}:
            assert "tenant_id" in table.c, table.name


def test_everything_is_gone_but_ledger_audit_and_record_when_a_tenant_is_deleted(
    bench: Bench, admin: Principal
) -> None:
    database, acme = bench.context.database, bench.alice.tenant_id
    bench.run(bench.submit(pages=2))
    for who in (bench.alice, bench.charlie):
        _fill(bench, who)
    bench.run(bench.submit(bench.charlie))
    waiting = bench.submit(pages=3)
    others = _rows(database, bench.charlie.tenant_id), len(_files(bench, bench.charlie.tenant_id))
    assert set(_rows(database, acme)) == TENANT_TABLES - {"deletion_records"}
    gone = delete_tenant(bench.context.database, bench.context.storage, admin, acme, typed_name=" acme ")
    assert (gone.members, gone.api_keys, gone.jobs, gone.pages, gone.unfinished_pages) == (2, 1, 2, 5, 3)
    assert set(_rows(database, acme)) == KEPT
    assert _files(bench, acme) == []
    assert (_rows(database, bench.charlie.tenant_id), len(_files(bench, bench.charlie.tenant_id))) == others
    with database.reading() as session:
        record = session.scalars(select(DeletionRecord)).one()
        assert (record.kind, record.target, record.actor, record.gone["pages"]) == ("tenant", acme, admin.email, 5)
        kinds = select(LedgerEntry.kind, func.sum(LedgerEntry.pages)).where(LedgerEntry.tenant_id == acme)
        entered = {kind: int(pages) for kind, pages in session.execute(kinds.group_by(LedgerEntry.kind))}
        assert entered == {"reserved": 5, "posted": 2, "returned": 3}
        returned = select(LedgerEntry.reason).where(LedgerEntry.job_id == waiting.id, LedgerEntry.kind == "returned")
        assert session.scalars(returned).all() == ["tenant_deleted"]
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "tenant.deleted")).one()
        assert (entry.actor, entry.address, (entry.before or {})["name"]) == (admin.email, "192.0.2.7", "acme")
    with pytest.raises(NotFound):
        delete_tenant(bench.context.database, bench.context.storage, admin, acme, typed_name="acme")


def test_a_claim_stores_nothing_when_its_tenant_is_deleted_meanwhile(bench: Bench, admin: Principal) -> None:
    database, acme = bench.context.database, bench.alice.tenant_id
    job = bench.submit(pages=2)
    with database.transaction() as session:
        held = claims.claim(session, "w", acme, job.id)
    delete_tenant(bench.context.database, bench.context.storage, admin, bench.alice.tenant_id, typed_name="acme")
    assert held is not None
    with database.transaction() as session:
        claims.store(session, held, Ending(PageState.SUCCEEDED, "read", 1, result={"markdown": "secret"}))
    assert set(_rows(database, bench.alice.tenant_id)) == KEPT
    with database.reading() as session:
        assert session.scalar(select(func.count()).where(LedgerEntry.kind == "posted")) == 0


def test_second_run_finishes_when_the_first_died_between_its_steps(
    bench: Bench, admin: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = bench.alice.tenant_id
    bench.run(bench.submit(pages=2))

    def die(_tenant_id: str) -> None:
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(type(bench.context.storage), "delete_tenant", lambda _self, tenant: die(tenant))
        with pytest.raises(OSError, match="power cut"):
            delete_tenant(bench.context.database, bench.context.storage, admin, acme, typed_name="acme")
    with pytest.raises(Exception, match="may not submit"):
        bench.submit()
    gone = delete_tenant(bench.context.database, bench.context.storage, admin, acme, typed_name="acme")
    assert (gone.members, gone.pages) == (2, 2)
    assert (set(_rows(bench.context.database, acme)), _files(bench, acme)) == (KEPT, [])


def test_nothing_is_deleted_when_the_name_is_not_typed_or_it_is_the_admins(bench: Bench, admin: Principal) -> None:
    with pytest.raises(InvalidRequest, match="typed name"):
        delete_tenant(bench.context.database, bench.context.storage, admin, bench.alice.tenant_id, typed_name="Acme")
    with pytest.raises(Conflict, match="admin's own"):
        delete_tenant(bench.context.database, bench.context.storage, admin, admin.tenant_id, typed_name="admin")
    with bench.context.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Tenant)) == 4
        assert set(session.scalars(select(Tenant.state))) == {"active"}


def test_nothing_of_the_text_is_left_when_a_tenant_is_deleted(bench: Bench, admin: Principal) -> None:
    words = f"secret{secrets.token_hex(8)}"
    bench.engine.script = [fakes.answers(words * 300)]  # longer than a page of the database
    upload = bench.upload(f"{words}.png")
    bench.run(submit(bench.context, bench.alice, [upload], Order()))
    upload.path.unlink()
    assert left_of(bench, words) != []
    delete_tenant(bench.context.database, bench.context.storage, admin, bench.alice.tenant_id, typed_name="acme")
    assert left_of(bench, words) == []


def test_a_request_ends_as_it_did_when_its_tenant_is_deleted_meanwhile(bench: Bench, admin: Principal) -> None:
    database, acme = bench.context.database, bench.alice.tenant_id
    with database.transaction() as session:
        asks = [reserve(session, bench.alice, Ask(1, None, "extract", "fake", "request")) for _ in range(2)]
    _, ending = sorted(held.reservation_id for held in asks)

    def delete() -> None:
        delete_tenant(database, bench.context.storage, admin, acme, typed_name="acme")

    with database.transaction() as session:
        # As far as the first of the statements of its end, then the deletion comes.
        session.execute(select(Reservation.id).where(Reservation.id == ending).with_for_update()).all()
        deleted = meanwhile(database, delete)
        end_request(session, acme, ending, is_delivered=True)
    deleted.result()
    assert set(_rows(database, acme)) == KEPT
    with database.reading() as session:
        rows = select(LedgerEntry.kind, LedgerEntry.reason).where(LedgerEntry.kind != "reserved")
        assert set(map(tuple, session.execute(rows))) == {("posted", "delivered"), ("returned", "tenant_deleted")}
