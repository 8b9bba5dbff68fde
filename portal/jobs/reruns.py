"""Identical re-runs are free: a page that was read before, in the same way, takes the reading that is there.

Same tenant, same bytes and page, same task prompt, engine and profile: then the keys are equal, and the tenant is part
of the key. A reading is taken at submission, or when a twin that was being read has ended; while it is read, its twins
are not claimed. Blank pages are readings too; cut ones (truncated) and failed ones are not, and lose or never had a
claim to be taken. Fresh jobs and retried pages take no reading, but give theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import structlog
from sqlalchemy import ColumnElement, case, exists, func, insert, literal, or_, select, update
from sqlalchemy.orm import Session, aliased

from models import Job, Page, SearchText
from models.base import now
from portal.documents.storage import Storage
from portal.domain import PageState, TaskPrompt
from portal.errors import Unavailable
from portal.usage.ledger import EndedPage, enter_identical, return_page

log = structlog.get_logger()

_BATCH = 500


@dataclass(frozen=True)
class Way:
    """How pages are read: everything besides their bytes that decides the text."""

    tenant_id: str
    prompt: TaskPrompt
    engine: str
    profile_version: str

    def key(self, sha256: str, number: int) -> str:
        """64 hex digits for page `number` of the document with those bytes; equal only where the text would be."""
        asked = asdict(self.prompt)  # whole, so that what prompts learn to say is never left out
        said = json.dumps([self.tenant_id, sha256, number, asked, self.engine, self.profile_version], default=str)
        return hashlib.sha256(said.encode()).hexdigest()


def readings(session: Session, tenant_id: str, keys: Collection[str], *, is_held: bool = True) -> dict[str, str]:
    """Key → the page that has its reading, for those keys that have one. `is_held`: until the transaction ends."""
    found: dict[str, str] = {}
    asked = sorted(set(keys))
    for start in range(0, len(asked), _BATCH):
        found_here = (
            select(Page.rerun_key, Page.id)
            .where(
                Page.tenant_id == tenant_id,
                Page.rerun_key.in_(asked[start : start + _BATCH]),
                Page.state == PageState.SUCCEEDED,
            )
            .order_by(Page.id)
        )
        rows = session.execute(found_here.with_for_update(read=True) if is_held else found_here)
        found |= {key: page_id for key, page_id in rows if key is not None}
    return found


def fill_taken(session: Session, storage: Storage, job: Job, reservation_id: str) -> int:
    """Gives the job's new pages that name a page to take from its reading; says how many there are.

    They were never reserved: the ledger says of each that it cost nothing.
    """
    session.flush()
    taken = session.scalars(
        select(Page.id).where(Page.tenant_id == job.tenant_id, Page.job_id == job.id, Page.reused_page_id.is_not(None))
    ).all()
    if taken:
        _copy(session, storage, job, taken)
        enter_identical(session, job.tenant_id, reservation_id, taken)
    return len(taken)


def is_free_to_claim() -> ColumnElement[bool]:
    """The condition on a queued Page, joined with its Job, that no twin of it is being read."""
    twin = aliased(Page)
    being_read = select(twin.rerun_key).where(twin.state == PageState.RUNNING, twin.rerun_key.is_not(None))
    return or_(
        Job.is_fresh, Page.attempts_before_retry > 0, Page.rerun_key.is_(None), Page.rerun_key.not_in(being_read)
    )


def take(session: Session, storage: Storage, job: Job) -> int:
    """Gives queued pages of the locked job the readings that are there by now; says how many.

    Each returns to its reservation (reason identical). The caller closes the job when it is done.
    """
    if job.is_fresh:
        return 0
    waiting = session.execute(
        select(Page.id, Page.rerun_key, Page.reservation_id)
        .where(Page.tenant_id == job.tenant_id, Page.job_id == job.id, Page.state == PageState.QUEUED, *_may_take())
        .where(_is_read_elsewhere(job.tenant_id))
        .order_by(Page.id)
    ).all()
    found = readings(session, job.tenant_id, [row.rerun_key for row in waiting if row.rerun_key])
    taken = [row for row in waiting if row.rerun_key in found]
    for row in taken:
        session.execute(
            update(Page)
            .where(Page.tenant_id == job.tenant_id, Page.id == row.id)
            .values(state=PageState.SUCCEEDED, reused_page_id=found[row.rerun_key or ""], finished_at=now())
            .execution_options(synchronize_session=False)
        )
    if taken:
        _copy(session, storage, job, [row.id for row in taken])
    for row in taken:
        ended = EndedPage(job.tenant_id, job.id, row.id, row.reservation_id or "")
        return_page(session, ended, "identical")
    return len(taken)


def jobs_with_twins(session: Session, tenant_id: str, page_id: str) -> Sequence[str]:
    """The tenant's jobs in which a page waits whose twin, the page of that id, has been read."""
    key = select(Page.rerun_key).where(
        Page.tenant_id == tenant_id, Page.id == page_id, Page.state == PageState.SUCCEEDED
    )
    return session.scalars(
        select(Page.job_id)
        .where(Page.tenant_id == tenant_id, Page.state == PageState.QUEUED, *_may_take())
        .where(Page.rerun_key == key.scalar_subquery())
        .group_by(Page.job_id)
        .order_by(Page.job_id)
    ).all()


def _may_take() -> tuple[ColumnElement[bool], ...]:
    return Page.rerun_key.is_not(None), Page.attempts_before_retry == 0


def _is_read_elsewhere(tenant_id: str) -> ColumnElement[bool]:
    twin = aliased(Page)
    return exists().where(
        twin.tenant_id == tenant_id, twin.rerun_key == Page.rerun_key, twin.state == PageState.SUCCEEDED
    )


def _copy(session: Session, storage: Storage, job: Job, page_ids: Sequence[str]) -> None:
    """Result, scores, text for the search and image of each page's source become its own, as they were read."""
    for start in range(0, len(page_ids), _BATCH):
        _copy_rows(session, job, page_ids[start : start + _BATCH])
        _link_views(session, storage, job, page_ids[start : start + _BATCH])


def _copy_rows(session: Session, job: Job, page_ids: Sequence[str]) -> None:
    source = aliased(Page)
    own = {name: getattr(source, name) for name in ("result", "confidence", "lines_to_check", "is_blank")}
    given = {
        name: select(column)
        .where(source.tenant_id == job.tenant_id, source.id == Page.reused_page_id)
        .correlate(Page)
        .scalar_subquery()
        for name, column in (own | {"fields": _fields_as_read(source)}).items()
    }
    session.execute(
        update(Page)
        .where(Page.tenant_id == job.tenant_id, Page.id.in_(page_ids))
        .values(**given)
        .execution_options(synchronize_session=False)
    )
    texts = (
        select("sea_" + func.substr(Page.id, 5), literal(job.tenant_id), literal(job.id), Page.id, SearchText.folded)
        .join(SearchText, SearchText.page_id == Page.reused_page_id)
        .where(Page.tenant_id == job.tenant_id, SearchText.tenant_id == job.tenant_id, Page.id.in_(page_ids))
    )
    session.execute(insert(SearchText).from_select(["id", "tenant_id", "job_id", "page_id", "folded"], texts))


def _fields_as_read(source: type[Page]) -> ColumnElement[Any]:
    """Without what a person made of them since (portal/jobs/fields.py)."""
    read = source.result["fields"]
    return case((read.as_string().is_not(None), read), else_=source.fields)


def _link_views(session: Session, storage: Storage, job: Job, page_ids: Sequence[str]) -> None:
    source = aliased(Page)
    pairs = session.execute(
        select(Page.document_id, Page.number, source.document_id, source.number)
        .join(source, source.id == Page.reused_page_id)
        .where(Page.tenant_id == job.tenant_id, source.tenant_id == job.tenant_id, Page.id.in_(page_ids))
    )
    try:
        for document_id, number, from_document, from_number in pairs.all():
            view = storage.page_view_path(job.tenant_id, from_document, from_number)
            storage.take_over(view, storage.page_view_path(job.tenant_id, document_id, number))
    except Unavailable as error:  # a full disk must not cost the text, as when a page is read
        log.warning("page images not taken over", job=job.id, reason=error.message)
