"""Story 1: bytes and a task prompt become a stored job whose pages wait for their turn.

Check the order, admit every file, store, then one transaction for documents, job and pages. What is refused
leaves nothing behind. Called in a thread by the API and the pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import DocumentRow, Job, Page
from models.base import new_id, now
from portal import audit
from portal.accounts.standing import refuse_ended_key
from portal.documents.intake import Admitted, PlanBounds, Upload, admit, sha256_of
from portal.documents.storage import storage_errors
from portal.domain import JobState, PageState, Principal, Scope, Task, TaskPrompt
from portal.engine.base import Engine
from portal.errors import Busy, Forbidden, InvalidRequest, LimitReached, PageOutOfRange, Unavailable
from portal.jobs import claims, reruns, search
from portal.jobs.backlog import admitted_pages, refuse_early
from portal.jobs.context import DEFAULT, JobContext, require_task
from portal.jobs.free_samples import refuse_samples
from portal.jobs.queries import JobView, get_job
from portal.jobs.sweep import discard_blobs
from portal.settings import IntakeSettings
from portal.usage.admission import Ask
from portal.usage.limits import Limits
from portal.usage.refusals import counting_refusals


@dataclass(frozen=True)
class Order:
    """What is asked for: the prompt, an engine by name, and page numbers (from 1) of each document, or all.

    `is_sample` says that the document is one that the portal drew itself; its pages cost nothing. Only the portal's
    own code may say so: no request carries it. `is_fresh` has pages read although they were read
    before in the same way, which would be free.
    """

    prompt: TaskPrompt = field(default_factory=TaskPrompt)
    engine: str = DEFAULT
    page_numbers: tuple[int, ...] | None = None
    is_sample: bool = False
    is_fresh: bool = False


@dataclass(frozen=True)
class _Stored:
    document_id: str
    admitted: Admitted
    page_numbers: tuple[int, ...]


def submit(context: JobContext, principal: Principal, uploads: Sequence[Upload], order: Order) -> JobView:
    """Accepts the uploads as one job and returns it, queued.

    Raises DocumentRefused (naming the file), TaskUnavailable, InvalidRequest, Forbidden, Busy, Unavailable, or
    Unauthenticated when its key has ended meanwhile; then nothing is stored. The uploads stay the caller's to remove.
    """
    engine = check_order(context, principal, uploads, order)
    with counting_refusals(context.database, principal.tenant_id):
        bounds = _early_look(context, principal, engine, uploads, order)
    owner, intake = principal.tenant_id, context.settings.intake
    admitted = [admit(upload, context.sandbox, intake, owner=owner, bounds=bounds) for upload in uploads]
    chosen = [chosen_pages(file, order.page_numbers) for file in admitted]
    with (
        counting_refusals(context.database, owner),
        _stored(context, principal, uploads, zip(admitted, chosen, strict=True)) as documents,
        context.database.transaction() as session,
    ):
        refuse_ended_key(session, principal)
        job = _insert(session, context, principal, documents, order)
    context.notices.announce(job.id)
    try:
        return get_job(context, owner, job.id)
    except Unavailable as error:
        error.job_id = job.id
        error.remedy = "The job was accepted: do not send it again, ask for it by its id later."
        raise


def check_order(context: JobContext, principal: Principal, uploads: Sequence[Upload], order: Order) -> Engine:
    """The engine of an order that is possible. Raises Forbidden, InvalidRequest, TaskUnavailable; opens no file."""
    if Scope.OCR not in principal.scopes:
        raise Forbidden("This key may not submit work.", remedy="Use a key with the scope 'ocr'.")
    if not uploads:
        raise InvalidRequest("No file was sent.", code="no_files", remedy="Send at least one file.")
    limit = context.settings.intake.max_job_files
    if len(uploads) > limit:
        raise InvalidRequest(
            f"{len(uploads)} files were sent; a job takes at most {limit}.",
            code="too_many_files",
            remedy="Split them over several jobs.",
        )
    engine = context.engines.get(order.engine)
    require_task(engine, order.prompt)
    if order.prompt.task is Task.FIELDS and not order.prompt.fields:
        raise InvalidRequest(
            "The task 'fields' needs fields.", remedy="Send 'fields' (names or a JSON Schema) or a 'template'."
        )
    return engine


def chosen_pages(file: Admitted, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """The numbers of the file's pages that are wanted, all for None. Raises PageOutOfRange."""
    count = file.inspection.page_count
    if wanted is None:
        return tuple(range(1, count + 1))
    if not wanted:
        raise InvalidRequest("The choice of pages names no page.", code="page_out_of_range")
    beyond = next((number for number in wanted if not 1 <= number <= count), None)
    if beyond is not None:
        raise PageOutOfRange(file.file_name, page=beyond, page_count=count)
    return tuple(sorted(set(wanted)))


@contextmanager
def _stored(
    context: JobContext,
    principal: Principal,
    uploads: Sequence[Upload],
    admitted: Iterator[tuple[Admitted, tuple[int, ...]]],
) -> Iterator[list[_Stored]]:
    """Blobs first, rows after: a blob without a row is swept later, a row without a blob is a loss."""
    documents: list[_Stored] = []
    try:
        for upload, (file, page_numbers) in zip(uploads, admitted, strict=True):
            document_id = new_id("doc")
            documents.append(_Stored(document_id, file, page_numbers))
            context.storage.store(principal.tenant_id, document_id, upload.path)
    except BaseException:
        _discard(context, principal, documents)
        raise
    try:
        yield documents
    except Unavailable:
        raise  # lost in mid-commit, perhaps: whether there are rows is for the sweep to see
    except BaseException:
        _discard(context, principal, documents)
        raise


def _discard(context: JobContext, principal: Principal, documents: Sequence[_Stored]) -> None:
    for document in documents:
        discard_blobs(context, principal.tenant_id, document.document_id)


def intake_of(context: JobContext, limits: Limits) -> IntakeSettings:
    """What a file may be: the portal's settings, and the tenant's limits where they are tighter."""
    intake = context.settings.intake
    own = {
        "max_file_bytes": min(intake.max_file_bytes, limits.max_file_bytes or intake.max_file_bytes),
        "max_document_pages": min(intake.max_document_pages, limits.max_document_pages or intake.max_document_pages),
    }
    return intake.model_copy(update=own)


def _early_look(
    context: JobContext, principal: Principal, engine: Engine, uploads: Sequence[Upload], order: Order
) -> PlanBounds:
    """Refuses before any file is opened (what counts is inside the transaction); gives what a file may be.

    Where too little is left, files that the tenant has stored before ask for nothing: their pages may have been read,
    and be free.
    """
    pages = 0 if order.is_sample else len(uploads)
    with context.database.reading() as session:
        try:
            terms = refuse_early(session, context, principal, engine, pages=pages, is_least=True)
        except (LimitReached, Busy):
            if order.is_fresh or order.is_sample:
                raise
            unknown = _unknown(session, principal.tenant_id, uploads)
            terms = refuse_early(session, context, principal, engine, pages=unknown, is_least=True)
    return PlanBounds(terms.plan, terms.limits.max_file_bytes, terms.limits.max_document_pages)


def _unknown(session: Session, tenant_id: str, uploads: Sequence[Upload]) -> int:
    """How many of the files the tenant has not stored before."""
    with storage_errors():
        wanted = [sha256_of(upload.path) for upload in uploads]
    own = (DocumentRow.tenant_id == tenant_id, DocumentRow.sha256.in_(set(wanted)))
    known = set(session.scalars(select(DocumentRow.sha256).where(*own)))
    return sum(sha256 not in known for sha256 in wanted)


def _insert(
    session: Session, context: JobContext, principal: Principal, documents: Sequence[_Stored], order: Order
) -> Job:
    """Sets aside what is to be read, and stores the job; pages that were read before take their readings."""
    engine = context.engines.get(order.engine)
    job = _job_row(principal, documents, order, engine)
    pages = _page_rows(job, documents, way_of(principal.tenant_id, order, engine))
    _take_over(session, job, pages)
    count = 0 if order.is_sample else sum(page.reused_page_id is None for page in pages)
    reason: Literal["sample", "submitted"] = "sample" if order.is_sample else "submitted"
    ask = Ask(pages=count, job_id=job.id, task=job.task, engine=job.engine, reason=reason)
    with admitted_pages(session, context, principal, engine, ask) as held:
        if order.is_sample:
            refuse_samples(session, principal.tenant_id)
        session.add(job)
        session.add_all(_document_row(principal, document) for document in documents)
        session.flush()
        for page in pages:
            page.reservation_id = held.reservation_id
        session.add_all(pages)
        search.remember_names(session, job, [document.admitted.file_name for document in documents])
        if reruns.fill_taken(session, context.storage, job, held.reservation_id):
            claims.close_when_done(session, job)
        _record(session, principal, job)
    return job


def _take_over(session: Session, job: Job, pages: Sequence[Page]) -> None:
    """Notes for each page that was read before whose reading it takes."""
    if job.is_fresh:
        return
    found = reruns.readings(session, job.tenant_id, [page.rerun_key for page in pages if page.rerun_key])
    for page in pages:
        page.reused_page_id = found.get(page.rerun_key or "")
        if page.reused_page_id is not None:
            page.state, page.finished_at = PageState.SUCCEEDED, now()


def _job_row(principal: Principal, documents: Sequence[_Stored], order: Order, engine: Engine) -> Job:
    return Job(
        id=new_id("job"),
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        api_key_id=principal.api_key_id,
        task=order.prompt.task,
        prompt=claims.prompt_to_json(order.prompt),
        engine=engine.capability.name,
        engine_profile=engine.capability.profile_version,
        state=JobState.QUEUED,
        page_count=sum(len(document.page_numbers) for document in documents),
        is_sample=order.is_sample,
        is_fresh=order.is_fresh,
    )


def _record(session: Session, principal: Principal, job: Job) -> None:
    audit.record(
        session,
        "job.submitted",
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=job.id,
        address=principal.address,
        pages=job.page_count,
        task=job.task,
    )


def _document_row(principal: Principal, document: _Stored) -> DocumentRow:
    admitted = document.admitted
    return DocumentRow(
        id=document.document_id,
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        file_name=admitted.file_name,
        media_type=admitted.inspection.media_type,
        byte_size=admitted.byte_size,
        sha256=admitted.sha256,
        page_count=admitted.inspection.page_count,
    )


def way_of(tenant_id: str, order: Order, engine: Engine) -> reruns.Way:
    """How the order's pages are read: those that were read in the same way before are free."""
    return reruns.Way(tenant_id, order.prompt, engine.capability.name, engine.capability.profile_version)


def _page_rows(job: Job, documents: Sequence[_Stored], way: reruns.Way) -> list[Page]:
    numbered = [(document, number) for document in documents for number in document.page_numbers]
    return [
        Page(
            id=new_id("pag"),
            tenant_id=job.tenant_id,
            job_id=job.id,
            document_id=document.document_id,
            position=position,
            number=number,
            # What a sample costs is its own affair: it neither takes nor gives.
            rerun_key=None if job.is_sample else way.key(document.admitted.sha256, number),
        )
        for position, (document, number) in enumerate(numbered, start=1)
    ]
