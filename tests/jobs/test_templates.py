"""A tenant's own templates: versions that never change, and nobody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select

from models import AuditEntry, Member
from models.base import now
from portal.domain import FieldSpec, FieldType, Scope
from portal.engine.fields.specs import specs_from_names
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from portal.jobs.templates import delete_template, get_template, list_templates, save_template
from tests.jobs.conftest import Bench

NOTES = specs_from_names(("delivery date", "weight"))
MORE = (*NOTES, FieldSpec("total", FieldType.MONEY, required=True))


def test_versions_count_on_and_are_the_tenants_own(bench: Bench) -> None:
    first = save_template(bench.context, bench.alice, "delivery notes", NOTES)
    same = save_template(bench.context, bench.bob, "delivery  notes", NOTES)
    second = save_template(bench.context, bench.bob, "delivery notes", MORE)
    assert [one.version for one in (first, same, second)] == [1, 1, 2]
    assert get_template(bench.context, bench.alice.tenant_id, "delivery notes").specs == MORE
    own = [one for one in list_templates(bench.context, bench.alice.tenant_id) if not one.is_built_in]
    assert [(one.name, one.version) for one in own] == [("delivery notes", 2)]
    with pytest.raises(NotFound):
        get_template(bench.context, bench.charlie.tenant_id, "delivery notes")
    assert save_template(bench.context, bench.charlie, "delivery notes", MORE).version == 1
    with bench.context.database.reading() as session:
        saved = session.scalars(select(AuditEntry).where(AuditEntry.action == "template.saved")).all()
    assert len(saved) == 3


def test_a_deleted_templates_versions_are_not_given_out_again(bench: Bench) -> None:
    save_template(bench.context, bench.alice, "notes", NOTES)
    with pytest.raises(NotFound):
        delete_template(bench.context, bench.charlie, "notes")
    delete_template(bench.context, bench.bob, "notes")
    with pytest.raises(NotFound):
        get_template(bench.context, bench.alice.tenant_id, "notes")
    with pytest.raises(NotFound):
        delete_template(bench.context, bench.alice, "notes")
    assert save_template(bench.context, bench.alice, "notes", NOTES).version == 2


def test_a_member_changes_no_template_when_it_was_removed_meanwhile(bench: Bench) -> None:
    save_template(bench.context, bench.alice, "notes", NOTES)
    with bench.context.database.transaction() as session:
        session.get_one(Member, bench.bob.member_id).removed_at = now()
    for change in (
        lambda: save_template(bench.context, bench.bob, "notes", MORE),
        lambda: delete_template(bench.context, bench.bob, "notes"),
    ):
        with pytest.raises(Unauthenticated):
            change()
    assert get_template(bench.context, bench.alice.tenant_id, "notes").specs == NOTES


@pytest.mark.parametrize("name", ["", "receipt", "Invoice", "a\x00b", "x" * 61, "../x", "<b>"])
def test_a_name_is_refused_when_it_cannot_be_one(sqlite_bench: Bench, name: str) -> None:
    with pytest.raises(InvalidRequest):
        save_template(sqlite_bench.context, sqlite_bench.alice, name, NOTES)


def test_what_everybody_has_stays(sqlite_bench: Bench) -> None:
    with pytest.raises(Conflict):
        delete_template(sqlite_bench.context, sqlite_bench.alice, "invoice")
    with pytest.raises(InvalidRequest):
        save_template(sqlite_bench.context, sqlite_bench.alice, "empty", ())
    reader = replace(sqlite_bench.alice, scopes=frozenset({Scope.READ}))
    with pytest.raises(Forbidden):
        save_template(sqlite_bench.context, reader, "notes", NOTES)
    names = [one.name for one in list_templates(sqlite_bench.context, sqlite_bench.charlie.tenant_id)]
    assert names == ["receipt", "invoice", "id_card", "business_card", "bank_slip"]
