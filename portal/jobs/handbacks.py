"""Pages that nobody ended are handed back: released, postponed, requeued after a death, and in the end given up.

Each function works in the caller's transaction, and changes only pages that are still running and the claimant's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from models import Job, Page
from models.base import now
from portal.domain import PageState
from portal.errors import EngineError
from portal.jobs.claims import Claim, close_when_done, still_held
from portal.usage.ledger import EndedPage, end_page

MAX_CLAIMS = 10
STRAY_AFTER = timedelta(seconds=30)
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=5), timedelta(minutes=10)


def release(session: Session, held: Claim, *, is_suspect: bool = False) -> None:
    """Gives an unfinished page back to the queue, its attempt uncounted: the page was not to blame.

    One that `is_suspect` may be: its attempt counts, and after MAX_CLAIMS of them it fails.
    """
    for page in _running(session, *still_held(held)):
        if is_suspect:
            _requeue_or_fail(session, page)
        else:
            _requeue(page, is_counted=False)


def postpone(session: Session, held: Claim, failure: EngineError) -> bool:
    """Puts the page back for a while, longer each time, since a server that it needs beside the engine is away.

    Claimed MAX_CLAIMS times, which takes half an hour or more, it fails with `failure`. True when the page waits now;
    False also when it is not this claimant's any more.
    """
    is_waiting = False
    for page in _running(session, *still_held(held)):
        claimed = page.attempt - page.attempts_before_retry
        if claimed < MAX_CLAIMS:
            _requeue(page, is_counted=True)
            page.wait_until = now() + min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (claimed - 1))
            is_waiting = True
        else:
            _fail(session, page, failure.code, f"{failure.message} It was tried {claimed} times.", failure.remedy)
    return is_waiting


def postponed(session: Session, tenant_id: str) -> dict[str, datetime]:
    """The tenant's jobs with pages that `postpone` put back → when the first of them may be claimed again."""
    first = func.min(Page.wait_until)
    rows = session.execute(
        select(Page.job_id, first)
        .where(Page.tenant_id == tenant_id, Page.state == PageState.QUEUED, Page.wait_until > now())
        .group_by(Page.job_id)
    )
    return {job_id: wait_until for job_id, wait_until in rows if wait_until is not None}


def no_longer_open(session: Session, page_ids: Collection[str]) -> set[str]:
    """Those of the pages, of any tenant, that neither wait nor are read: ended, cancelled or deleted."""
    under_way = Page.state.in_((PageState.QUEUED, PageState.RUNNING))
    return set(page_ids) - set(session.scalars(select(Page.id).where(Page.id.in_(page_ids), under_way)))


def release_all(session: Session, worker: str) -> None:
    """Gives all unfinished pages of the worker back, their attempts uncounted: it stops in good order."""
    for page in _running(session, _claimed_by(worker)):
        _requeue(page, is_counted=False)


def lost(session: Session, tokens: Collection[str]) -> set[str]:
    """Those of the claims whose page is not theirs any more: cancelled, deleted or taken over."""
    held = session.scalars(select(Page.claimed_by).where(Page.state == PageState.RUNNING, Page.claimed_by.in_(tokens)))
    return set(tokens) - set(held)


def requeue_strays(session: Session, worker: str, tokens: Collection[str]) -> int:
    """Requeues pages that `worker` claimed but does not work on, `tokens` being its claims; returns how many.

    A connection lost at the commit of a claim leaves such a page: claimed in the database, unknown to the
    claimant. Young claims are left alone, since the claimant may just be hearing of them.
    """
    old = Page.started_at < now() - STRAY_AFTER
    strays = _running(session, _claimed_by(worker), Page.claimed_by.not_in(tokens), old)
    for page in strays:
        _requeue_or_fail(session, page)
    return len(strays)


def recover(session: Session) -> int:
    """Requeues every page left running by a process that died; returns how many.

    Called only by the one process that may dispatch, and that works on none.
    """
    orphans = _running(session)
    for page in orphans:
        _requeue_or_fail(session, page)
    return len(orphans)


def _running(session: Session, *conditions: ColumnElement[bool]) -> Sequence[Page]:
    """Running pages of any tenant, their jobs locked before them, in one order for all processes."""
    found = (Page.state == PageState.RUNNING, *conditions)
    jobs = select(Job.id).where(Job.id.in_(select(Page.job_id).where(*found))).order_by(Job.id)
    session.execute(jobs.with_for_update()).all()
    return session.scalars(select(Page).where(*found).with_for_update()).all()


def _claimed_by(worker: str) -> ColumnElement[bool]:
    return Page.claimed_by.startswith(f"{worker}/", autoescape=True)


def _requeue(page: Page, *, is_counted: bool) -> None:
    page.state, page.claimed_by, page.started_at = PageState.QUEUED, None, None
    if not is_counted:
        page.attempt -= 1


def _requeue_or_fail(session: Session, page: Page) -> None:
    """A page claimed MAX_CLAIMS times since it was sent or retried, and never ended: it may kill the process."""
    if page.attempt - page.attempts_before_retry < MAX_CLAIMS:
        _requeue(page, is_counted=True)
    else:
        _fail_interrupted(session, page)


def _fail_interrupted(session: Session, page: Page) -> None:
    times = page.attempt - page.attempts_before_retry
    _fail(
        session,
        page,
        "interrupted",
        f"The portal or its engine stopped {times} times while it read this page.",
        "Send the page again as an image; tell the operator if it happens again.",
    )


def _fail(session: Session, page: Page, code: str, message: str, remedy: str) -> None:
    """The page is given up, through no fault of its tenant's."""
    job = session.get_one(Job, page.job_id)
    page.state, page.claimed_by = PageState.FAILED, None
    page.finished_at = now()
    page.error_code, page.error_message, page.error_remedy = code, message[:500], remedy[:500]
    ended = EndedPage(page.tenant_id, job.id, page.id, page.reservation_id or "")
    end_page(session, ended, "failed", is_portals_fault=True)
    close_when_done(session, job)
