from __future__ import annotations

import pytest
import structlog
from sqlalchemy import delete, select, update
from sqlalchemy.exc import DBAPIError

from models import AuditEntry
from portal import audit
from portal.audit import REFUSED, Outcome
from portal.db import Database
from portal.domain import Principal, Role


def test_entry_names_who_where_request_and_change(database: Database) -> None:
    who = Principal("ten_1", "acme", "mem_1", "a@x.example", Role.OWNER, False, frozenset(), address="192.0.2.7")
    with structlog.contextvars.bound_contextvars(request_id="r1"), database.transaction() as session:
        audit.record(session, "a.done", actor=who, outcome=Outcome(before={"x": 1}, after={"x": 2}), why="because")
        audit.record(session, "a.refused", actor="operator", outcome=REFUSED)
    with database.reading() as session:
        done, refused = session.scalars(select(AuditEntry).order_by(AuditEntry.action))
    assert (done.actor, done.address, done.request_id, done.result) == ("a@x.example", "192.0.2.7", "r1", "ok")
    assert (done.before, done.after, done.details) == ({"x": 1}, {"x": 2}, {"why": "because"})
    assert (refused.actor, refused.result, refused.before) == ("operator", "refused", None)


def test_entries_cannot_be_changed_or_deleted(database: Database) -> None:
    with database.transaction() as session:
        audit.record(session, "a.done", actor="operator")
    for statement in (update(AuditEntry).values(actor="nobody"), delete(AuditEntry)):
        with pytest.raises(DBAPIError, match="never changed"), database.transaction() as session:
            session.execute(statement)
    with database.reading() as session:
        assert session.scalars(select(AuditEntry.actor)).all() == ["operator"]
