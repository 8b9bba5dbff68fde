"""Whatever happens in whatever order: after the sweep nothing is held for nobody, and the books agree.

A state machine over the real functions and SQLite: submit, run again, claim, store any outcome, die, cancel, retry,
delete, expire, lose rows, and let days pass; the engine and the dispatcher are left out.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select, update

from models import Base, Job, Page, Reservation, TenantUsage
from models.base import now
from portal.db import Database
from portal.documents.intake import Upload
from portal.documents.sandbox import Sandbox
from portal.domain import PageState
from portal.engine.fakes import FakeEngine, written
from portal.errors import PortalError
from portal.jobs import claims, handbacks
from portal.jobs.claims import Claim, Ending
from portal.jobs.endings import cancel, delete
from portal.jobs.execution import _store
from portal.jobs.retention import delete_expired
from portal.jobs.retry import retry
from portal.jobs.stray_reservations import strays, sweep_reservations
from portal.jobs.submission import Order, submit
from portal.results.serial import page_text_to_json
from portal.usage import books
from portal.usage.ledger import Outcome
from tests.jobs.conftest import Bench, make_bench, page_bytes, sandbox
from tests.ledger import assert_books_agree, limit_tenant

__all__ = ["sandbox"]  # the fixture

_BYTES = [page_bytes(pages, words=f"machine {pages}") for pages in (1, 2, 3)]
_OUTCOMES: list[Outcome] = ["read", "blank", "failed", "truncated"]


class Books(RuleBasedStateMachine):
    children: Sandbox  # of the test that runs it

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="portal-machine-")
        self.database = Database(f"sqlite:///{self.folder.name}/test.db")
        Base.metadata.create_all(self.database.engine)
        self.bench: Bench = make_bench(self.database, self.children, Path(self.folder.name), [FakeEngine()])
        self.jobs: list[str] = []
        self.held: list[Claim] = []

    @initialize(cap=st.integers(0, 3), day=st.integers(5, 40))
    def limit(self, cap: int, day: int) -> None:
        limit_tenant(
            self.database,
            self.bench.alice.tenant_id,
            uncharged_pages_per_day=cap,
            pages_per_day=day,
            retention_days=3,
        )

    @rule(which=st.integers(0, 2), is_fresh=st.booleans(), is_sample=st.booleans())
    def submit(self, which: int, is_fresh: bool, is_sample: bool) -> None:
        path = Path(self.folder.name) / secrets.token_hex(4)
        path.write_bytes(_BYTES[which])
        with suppress(PortalError):
            order = Order(is_fresh=is_fresh, is_sample=is_sample)
            self.jobs.append(submit(self.bench.context, self.bench.alice, [Upload("a.tiff", path)], order).id)

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99))
    def claim(self, pick: int) -> None:
        job_id, tenant_id = self.jobs[pick % len(self.jobs)], self.bench.alice.tenant_id
        with self.database.transaction() as session:
            claims.take_readings(session, self.bench.context.storage, tenant_id, job_id)
            claim = claims.claim(session, "worker", tenant_id, job_id)
        if claim is not None:
            self.held.append(claim)

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 99), outcome=st.sampled_from(_OUTCOMES), is_ours=st.booleans())
    def end(self, pick: int, outcome: Outcome, is_ours: bool) -> None:
        claim = self.held.pop(pick % len(self.held))
        if outcome == "failed":
            words = ("internal" if is_ours else "engine_failed", "It failed.", "Retry.")
            ending = Ending(PageState.FAILED, outcome, claim.attempt, error=words)
        else:
            text = written("" if outcome == "blank" else "text")
            ending = Ending(PageState.SUCCEEDED, outcome, claim.attempt, result=page_text_to_json(text))
        _store(self.bench.context, claim, ending)

    @rule()
    def die(self) -> None:
        """Kill -9: what was claimed is requeued; what the dead one still sends is not taken."""
        with self.database.transaction() as session:
            handbacks.recover(session)
        for claim in self.held:
            with self.database.transaction() as session:
                assert not claims.store(session, claim, Ending(PageState.SUCCEEDED, "read", 1))
        self.held.clear()

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99), act=st.sampled_from([cancel, retry, delete]))
    def act(self, pick: int, act: Callable[..., object]) -> None:
        with suppress(PortalError):
            act(self.bench.context, self.bench.alice, self.jobs[pick % len(self.jobs)])

    @rule()
    def expire(self) -> None:
        delete_expired(self.bench.context, at=now() + timedelta(days=4))

    @rule()
    def next_day(self) -> None:
        """The next moment is of another day and month than all that was reserved so far."""
        with self.database.transaction() as session:
            for table in (Reservation, TenantUsage):
                session.execute(update(table).where(table.day != "").values(day="2026-01-02", month="2026-01"))
            session.execute(update(TenantUsage).values(**self._sums_of_old_days(session)))

    def _sums_of_old_days(self, session: object) -> dict[str, int]:
        own = list(session.scalars(select(Reservation)))  # type: ignore[attr-defined]
        pages, posted = sum(row.pages - row.returned for row in own), sum(row.posted for row in own)
        return {"day_pages": pages, "month_pages": pages, "day_posted": posted, "month_posted": posted}

    @precondition(lambda self: self.jobs)
    @rule(pick=st.integers(0, 99))
    def lose_a_page(self, pick: int) -> None:
        """What no code of ours does: a row that is gone. Only the sweep can give its page back."""
        with self.database.transaction() as session:
            page = session.scalars(
                select(Page).where(Page.job_id == self.jobs[pick % len(self.jobs)], Page.state == PageState.QUEUED)
            ).first()
            if page is not None:
                session.delete(page)
                session.flush()
                job = session.get_one(Job, page.job_id)
                claims.close_when_done(session, job)

    @invariant()
    def books_agree(self) -> None:
        sweep_reservations(self.database)
        with self.database.reading() as session:
            assert_books_agree(session)
            assert strays(session) == {}
            assert all(not each.faults for each in books.check(session))
            unfinished = select(Page.reservation_id).where(Page.state.in_((PageState.QUEUED, PageState.RUNNING)))
            waiting = set(session.scalars(unfinished))
            still_open = select(Reservation.id).where(Reservation.closed_at.is_(None))
            assert set(session.scalars(still_open)) <= waiting

    def teardown(self) -> None:
        self.database.dispose()
        self.folder.cleanup()


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
def test_books_agree_whatever_happens_in_whatever_order(sandbox: Sandbox) -> None:
    run_state_machine_as_test(
        type("Books", (Books,), {"children": sandbox}),
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
