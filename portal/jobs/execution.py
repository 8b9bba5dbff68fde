"""Story 2: one claimed page is rasterized, read in its turn, stored and counted.

Rasterizing may run one page ahead of the engine; recognition takes one of the engine's slots. Whatever
happens to the page ends in exactly one stored outcome, or the dispatcher puts it back into the queue.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import structlog

from portal.documents.rasterize import rasterize, write_view
from portal.domain import PageImage, PageState, TaskPrompt
from portal.engine.base import Call, Engine, priority_of
from portal.engine.fields.effort import FIELDS_TOO_COSTLY
from portal.engine.second_servers import TEXT_MODEL_FAILED, SecondServerError
from portal.engine.vllm.failures import AWAY, INSTANCE_LOST
from portal.errors import DocumentRefused, EngineError, PortalError, Unavailable
from portal.jobs import claims, reruns
from portal.jobs.claims import Claim, Ending
from portal.jobs.context import JobContext
from portal.jobs.places import Place
from portal.page_text import PageText
from portal.results.serial import page_text_to_json

log = structlog.get_logger()

FILE_MISSING = "file_missing"
_PAGES_OWN = frozenset(
    {EngineError.code, "engine_image_refused", "engine_context_too_long", TEXT_MODEL_FAILED, FIELDS_TOO_COSTLY}
)
# The only place that tries a page again: engines and their clients never do.
_ENGINE_CALLS = 3
_FIRST_BACKOFF_SECONDS = 0.5
_JITTER = 0.5  # calls that failed together are not made again together
_STORE_RETRY_SECONDS = 2.0


class EngineAway(Unavailable):
    """The engine does not answer. A page `is_suspect` when it was being read as the engine went: it may kill it."""

    code = AWAY

    def __init__(self, message: str, *, is_suspect: bool) -> None:
        super().__init__(message)
        self.is_suspect = is_suspect


class PageWaits(Unavailable):
    """A server beside the engine does not answer: this page waits for it, and no other. `failure` says which."""

    def __init__(self, failure: SecondServerError) -> None:
        super().__init__(failure.message, code=failure.code, remedy=failure.remedy)
        self.failure = failure


async def execute(context: JobContext, claim: Claim, engine: Engine, place: Place) -> None:
    """Works the page off.

    Raises Unavailable when storage or sandbox are away, EngineAway when the engine is, PageWaits when a server beside
    it is: the page is not to blame and stays claimed, for the dispatcher to release, as it does when it is cancelled.
    """
    began = time.monotonic()
    ending = await _outcome(context, claim, engine, place)
    await settle(context, claim, ending)
    log.info(
        "page ended",
        job=claim.ended.job_id,
        page=claim.page_id,
        outcome=ending.outcome,
        attempt=ending.attempt,
        seconds=round(time.monotonic() - began, 2),
    )


def internal_failure(claim: Claim) -> Ending:
    """The outcome of a page whose execution hit a fault of the portal itself."""
    error = PortalError(
        "The portal failed on this page.", code="internal", remedy="Retry the page; tell the operator if it lasts."
    )
    return _failed(error, claim.attempt)


async def _outcome(context: JobContext, claim: Claim, engine: Engine, place: Place) -> Ending:
    page = (claim.tenant_id, claim.document_id, claim.number)
    # One scratch file a claim: a process that lost its claim must not remove its successor's.
    scratch = context.storage.scratch_path(*page, mark=claim.mark)
    try:
        image = await asyncio.to_thread(_rasterize, context, claim, scratch)
        async with place.slot():
            reading, attempt = await _read(context, engine, image, claim, place)
        rotation = reading.rotation_degrees if isinstance(reading, PageText) else 0
        await asyncio.to_thread(_keep_view, context, image, rotation, context.storage.page_view_path(*page))
    except DocumentRefused as error:
        return _failed(error, claim.attempt)
    finally:
        await asyncio.to_thread(scratch.unlink, missing_ok=True)
    return _read_ending(reading, attempt) if isinstance(reading, PageText) else _failed(reading, attempt)


def _rasterize(context: JobContext, claim: Claim, scratch: Path) -> PageImage:
    source = context.storage.source_path(claim.tenant_id, claim.document_id)
    if not source.is_file():
        _refuse_missing(source)
    return rasterize(context.sandbox, source, claim.media_type, claim.number, scratch)


def _refuse_missing(source: Path) -> NoReturn:
    """Tells a document that is gone from a data folder that is away: only the former is the page's failure."""
    if not source.parent.parent.is_dir():
        raise Unavailable("The portal's storage is away.", code="storage_unavailable")
    raise DocumentRefused(
        "The document's file is gone from the portal's storage.", code=FILE_MISSING, remedy="Upload it again."
    )


def _keep_view(context: JobContext, image: PageImage, rotation_degrees: int, target: Path) -> None:
    try:
        write_view(context.sandbox, image, rotation_degrees, target)
    except (DocumentRefused, Unavailable) as error:  # a full disk must not cost the text that was read
        log.warning("page image not kept", reason=type(error).__name__)


async def _read(
    context: JobContext, engine: Engine, image: PageImage, claim: Claim, place: Place
) -> tuple[PageText | EngineError, int]:
    """Calls the engine, again where it may help, within the page's deadline; also gives the attempts so far.

    A server beside the engine has as long again, its own, and does not keep the engine's slot. Raises EngineAway,
    PageWaits.
    """
    page_seconds = context.settings.engine.page_seconds
    failures: list[EngineError] = []
    is_pausing = False
    try:
        async with asyncio.timeout(page_seconds) as deadline:
            asked = replace(_call(context, claim, partial(_go_beside, deadline, place)), ends_at=deadline.when())
            while True:
                attempt = claim.attempt + len(failures)
                call = replace(asked, request_id=f"{claim.page_id}-{attempt}")
                reading = await _called(engine, image, claim.prompt, call)
                if isinstance(reading, PageText):
                    return reading, attempt
                failures.append(reading)
                is_over = reading.is_permanent or isinstance(reading, SecondServerError)
                if is_over or len(failures) == _ENGINE_CALLS:
                    break
                is_pausing = True
                await asyncio.sleep(_backoff_seconds(len(failures)))
                is_pausing = False
    except TimeoutError:
        if not is_pausing:  # else what failed last is why: an engine that is away does not fail its pages
            failures.append(_too_slow(page_seconds))
    _raise_if_away(failures)
    return failures[-1], claim.attempt + len(failures) - 1


def _call(context: JobContext, claim: Claim, on_read: Callable[[], None]) -> Call:
    return Call(
        priority=priority_of(claim.weight),
        reading=context.kept_readings.take(claim.page_id),
        second_seconds=context.settings.engine.page_seconds,
        on_read=on_read,
    )


def _go_beside(deadline: asyncio.Timeout, place: Place) -> None:
    if not deadline.expired():
        deadline.reschedule(None)  # the engine bounds what follows by `second_seconds`
    place.go_beside()


def _raise_if_away(failures: Sequence[EngineError]) -> None:
    last = failures[-1]
    if isinstance(last, SecondServerError) and not last.is_permanent:
        raise PageWaits(last)
    if last.code in (AWAY, INSTANCE_LOST):
        raise EngineAway(last.message, is_suspect=any(failure.code != AWAY for failure in failures))


def _backoff_seconds(failures: int) -> float:
    jitter = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  nothing secret
    return _FIRST_BACKOFF_SECONDS * float(2 ** (failures - 1)) * jitter


def _too_slow(page_seconds: int) -> EngineError:
    return EngineError(
        f"The engine did not answer within {page_seconds} seconds.", is_permanent=True, code="page_timeout"
    )


async def _called(engine: Engine, image: PageImage, prompt: TaskPrompt, call: Call) -> PageText | EngineError:
    try:
        return await engine.recognise(image, prompt, call)
    except EngineError as failure:
        return failure


def _read_ending(text: PageText, attempt: int) -> Ending:
    return Ending(
        PageState.SUCCEEDED,
        "blank" if text.is_blank else "truncated" if text.truncated else "read",
        attempt,
        result=page_text_to_json(text),
        confidence=text.confidence,
        lines_to_check=text.lines_to_check,
    )


def _failed(error: PortalError, attempt: int) -> Ending:
    words = (error.code[:60], _stored_words(error.message), _stored_words(error.remedy))
    return Ending(PageState.FAILED, "failed", attempt, error=words, is_own_failure=_is_pages_own(error))


def _is_pages_own(error: PortalError) -> bool:
    """Whether what stands on the page is the cause: a wrong key, a cut stream or a slow engine are not its tenant's."""
    if isinstance(error, DocumentRefused):
        return error.code != FILE_MISSING
    return (error.cause if isinstance(error, SecondServerError) else error.code) in _PAGES_OWN


def _stored_words(words: str) -> str:
    # An engine's own words may hold what Postgres refuses in text: NUL and lone surrogates.
    return words.replace("\0", "").encode("utf-8", "replace").decode()[:500]


async def settle(context: JobContext, claim: Claim, ending: Ending) -> None:
    """Stores the outcome; waits out a database that is away: a page that was read is not read again for it."""
    while True:
        try:
            return await asyncio.to_thread(_store, context, claim, ending)
        except Unavailable as error:
            log.warning("page outcome waits for the database", page=claim.page_id, reason=error.message)
            await asyncio.sleep(_STORE_RETRY_SECONDS)


def _store(context: JobContext, claim: Claim, ending: Ending) -> None:
    with context.database.transaction() as session:
        claims.store(session, claim, ending)
    if ending.result is not None:
        _hand_over(context, claim)


def _hand_over(context: JobContext, claim: Claim) -> None:
    """Twins that waited for this page take its reading, each job in a transaction of its own.

    What fails here is made up for when the job's turn comes (`Dispatcher`), so also after a death.
    """
    try:
        with context.database.reading() as session:
            jobs = reruns.jobs_with_twins(session, claim.tenant_id, claim.page_id)
        for job_id in jobs:
            with context.database.transaction() as session:
                claims.take_readings(session, context.storage, claim.tenant_id, job_id)
            context.notices.announce(job_id)
    except Unavailable as error:
        log.warning("twins take the reading later", page=claim.page_id, reason=error.message)
