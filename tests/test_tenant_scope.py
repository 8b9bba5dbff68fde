"""Every statement on tenant rows names the tenant, but for the few that are said here to look over all of them."""

from __future__ import annotations

import io
import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Executable, delete, event, insert, select, update

from models import ApiKey, Base, DeletionRecord, FieldTemplate, Invite, Job, Page
from portal.accounts import api_keys, invites, key_proof, membership, sessions, suspension
from portal.accounts.joining import Newcomer, join
from portal.accounts.peppers import Peppers
from portal.accounts.rotation import rotate
from portal.db import Database
from portal.documents.sandbox import Sandbox
from portal.domain import FieldSpec, FieldType, Limit, Role, Scope, Task, TaskPrompt, TenantState
from portal.engine.fakes import FakeEngine, answers, fails
from portal.jobs import endings, history, queries, templates
from portal.jobs.bundle import write_bundle
from portal.jobs.deletion import list_deletions
from portal.jobs.field_table import write_field_table
from portal.jobs.fields import Correction, correct, document_fields
from portal.jobs.job_views import file_names
from portal.jobs.price import price
from portal.jobs.retry import retry
from portal.jobs.submission import Order, submit
from portal.results.export import ExportFormat
from portal.tenancy.deletion import delete_tenant
from portal.usage.forecast import runs_out_at
from portal.usage.more import ask_for_more, requests_for_more
from portal.usage.notices import Notice, close_notice, open_notices
from portal.usage.receipt_list import ReceiptsAsked, list_receipts
from portal.usage.reports import key_use, usage_report
from portal.usage.standing import standing_of
from portal.usage.zones import change_time_zone
from tests.jobs.conftest import Bench, make_bench, sandbox

__all__ = ["sandbox"]  # the fixture

TENANT_TABLES = sorted(table.name for table in Base.metadata.sorted_tables if "tenant_id" in table.c)
# Scheduling and pace look over all tenants by design; a key or a session is what proves the tenant.
LOOK_OVER_ALL = {
    "waiting",
    "weights_of",
    "_gone_holders",
    "recover",
    "requeue_strays",
    "marks_in_use",
    "_running",
    "lost",
    "no_longer_open",
    "release_all",
    "measure",
    "queued_pages",
    "_find",
    "resolve",
    "_find_account",
    "find_by_email",
    "_find_by_token",  # of an invite, which is what proves the tenant
    "purge",  # of expired sessions
    "tenant_of",  # of the tests' own bench
}
# SQLAlchemy writes and reloads by its id a row that a scoped query found.
UNIT_OF_WORK = {"refresh", "_flush", "load_scalar_attributes"}

Recorded = list[tuple[str, set[str]]]


@pytest.fixture
def scoped_bench(sqlite_database: Database, sandbox: Sandbox, tmp_path: Path) -> Bench:
    return make_bench(sqlite_database, sandbox, tmp_path, [FakeEngine()])


def _recorded(database: Database, act: Callable[[], object]) -> Recorded:
    seen: Recorded = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append((statement, {frame.name for frame in traceback.extract_stack()}))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        act()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    return seen


def _unscoped(seen: Recorded) -> list[str]:
    return [
        statement
        for statement, callers in seen
        if re.search(rf"\b(FROM|UPDATE|JOIN) ({'|'.join(TENANT_TABLES)})\b", statement)
        and "tenant_id = " not in statement.partition("WHERE")[2]
        and not callers & (LOOK_OVER_ALL | UNIT_OF_WORK)
    ]


def test_every_statement_names_the_tenant_when_a_job_is_lived_through(scoped_bench: Bench) -> None:
    context, alice = scoped_bench.context, scoped_bench.alice

    def live() -> None:
        [job] = scoped_bench.run(scoped_bench.submit(pages=2))
        queries.get_job(context, alice.tenant_id, job.id)
        queries.list_jobs(context, alice.tenant_id, before=job.id)
        queries.page_text(context, alice.tenant_id, job.id, 1)
        queries.page_reading(context, alice.tenant_id, job.id, 1)
        queries.page_view_path(context, alice.tenant_id, job.id, 1)
        list(queries.export_job(context, alice.tenant_id, job.id, ExportFormat.JSON).chunks)
        history.find(context, alice.tenant_id, group=history.Group.ATTENTION, text="total job_")
        write_bundle(context, alice.tenant_id, [job.id], ExportFormat.TXT, io.BytesIO())
        endings.delete(context, alice, job.id)
        scoped_bench.engine.script = [fails(is_permanent=True)]
        [failed] = scoped_bench.run(scoped_bench.submit())
        history.look(context, alice.tenant_id, failed)
        retry(context, alice, failed.id, [1])
        endings.cancel(context, alice, scoped_bench.submit().id)

    seen = _recorded(context.database, live)
    assert len(seen) > 30
    assert _unscoped(seen) == []


def test_every_statement_names_the_tenant_when_keys_are_managed(scoped_bench: Bench) -> None:
    database, alice = scoped_bench.context.database, scoped_bench.alice
    peppers = Peppers.from_secrets(["p" * 32])

    def manage() -> None:
        with database.transaction() as session:
            made = api_keys.create(session, peppers, alice, name="k", scopes=(Scope.READ,), expires_at=None)
        key_proof.authenticate(database, peppers, made.key, address=None)
        with database.transaction() as session:
            api_keys.list_keys(session, alice.tenant_id)
            rotate(session, peppers, alice, made.view.id)
            api_keys.revoke(session, alice, made.view.id)

    seen = _recorded(database, manage)
    assert len(seen) > 5
    assert _unscoped(seen) == []


def test_every_statement_names_the_tenant_when_use_is_looked_at(scoped_bench: Bench) -> None:
    context, alice = scoped_bench.context, scoped_bench.alice

    def look() -> None:
        scoped_bench.run(scoped_bench.submit(pages=2))
        price(context, alice, [scoped_bench.upload()], Order())
        with context.database.transaction() as session:
            standing = standing_of(session, alice.tenant_id)
            day, month = standing.period.day, standing.period.month
            usage_report(session, alice.tenant_id, first_day=day, last_day=day)
            key_use(session, alice.tenant_id, day=day, month=month)
            for found in (
                list_receipts(session, alice.tenant_id, ReceiptsAsked(day, day)),
                requests_for_more(session, alice.tenant_id),
                open_notices(session, alice.tenant_id, standing),
            ):
                assert isinstance(found, list)
            if standing.nearest is not None:
                runs_out_at(session, alice.tenant_id, standing, standing.nearest)
            ask_for_more(session, alice, "pages_per_day", 10**6, "the archive")
            close_notice(session, alice.tenant_id, Notice(Limit.PAGES_PER_DAY, day, 50, 100), at=standing.period.at)
            change_time_zone(session, alice, "Europe/Berlin")
            file_names(session, alice.tenant_id, ["job_1"])

    seen = _recorded(context.database, look)
    assert len(seen) > 20
    assert _unscoped(seen) == []


def test_every_statement_names_the_tenant_when_members_are_managed(scoped_bench: Bench) -> None:
    database, alice = scoped_bench.context.database, scoped_bench.alice

    def manage() -> None:
        with database.transaction() as session:
            made = invites.invite_member(session, alice, invites.InviteTerms())
            spare = invites.invite_member(session, alice, invites.InviteTerms())
            invites.list_open(session, alice.tenant_id)
            invites.revoke_invite(session, alice, spare.view.id)
        dora = join(database, made.token, Newcomer("dora@example.org", "seven green kettles"), time_zone="UTC")
        token = sessions.open_session(database, dora, user_agent=None, days=1)
        sessions.resolve(database, token)
        with database.transaction() as session:
            membership.list_members(session, alice.tenant_id)
            membership.change_role(session, alice, str(dora.member_id), Role.OWNER)
            membership.change_role(session, alice, str(dora.member_id), Role.MEMBER)
            membership.remove_member(session, alice, str(dora.member_id))
            suspension.suspend(session, alice.tenant_id, state=TenantState.SUSPENDED, reason="Why.", actor="test")

    seen = _recorded(database, manage)
    assert len(seen) > 30
    assert _unscoped(seen) == []


def test_every_statement_names_the_tenant_when_fields_are_corrected_and_the_tenant_is_deleted(
    scoped_bench: Bench,
) -> None:
    context, alice, engine = scoped_bench.context, scoped_bench.alice, scoped_bench.engine
    engine.capability = replace(engine.capability, tasks=frozenset({Task.EXTRACT, Task.FIELDS}))
    engine.script = [answers("Total 9.00")]
    specs, upload = (FieldSpec("total", FieldType.MONEY),), scoped_bench.upload()
    order = Order(TaskPrompt(Task.FIELDS, specs))

    def live() -> None:
        templates.save_template(context, alice, "notes", specs)
        templates.list_templates(context, alice.tenant_id)
        templates.get_template(context, alice.tenant_id, "notes")
        templates.delete_template(context, alice, "notes")
        [job] = scoped_bench.run(submit(context, alice, [upload], order))
        correct(context, alice, job.id, [Correction(1, "total", "8")])
        write_field_table(context, alice.tenant_id, [job.id], io.BytesIO())
        document_fields(context, alice.tenant_id, submit(context, alice, [upload], order).id)
        endings.delete(context, alice, job.id)
        list_deletions(context, alice.tenant_id)
        scoped_bench.submit(pages=2)
        delete_tenant(context.database, context.storage, "test", alice.tenant_id, typed_name="acme")

    seen = _recorded(context.database, live)
    assert len(seen) > 60
    assert _unscoped(seen) == []


_CARELESS = (
    select(Job).where(Job.id == "job_1"),
    select(FieldTemplate).where(FieldTemplate.name == "notes"),
    update(Page).where(Page.job_id == "job_1").values(attempt=2),
    delete(DeletionRecord).where(DeletionRecord.target == "job_1"),
    insert(Invite).from_select(["id", "token_hash"], select(ApiKey.id, ApiKey.key_hash).where(ApiKey.name == "k")),
)


@pytest.mark.parametrize("statement", _CARELESS)
def test_a_statement_without_tenant_is_found(scoped_bench: Bench, statement: Executable) -> None:
    def careless() -> None:
        with scoped_bench.context.database.transaction() as session:
            session.execute(statement.execution_options(synchronize_session=False))

    assert len(_unscoped(_recorded(scoped_bench.context.database, careless))) == 1
