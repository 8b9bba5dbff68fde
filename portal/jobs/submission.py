"""Story 1: bytes and a task prompt become a stored job whose pages wait for their turn.

Check the order, admit every file, store, then one transaction for documents, job and pages. What is refused
leaves nothing behind. Called in a thread by the API and the pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import ApiKey, DocumentRow, Job, Page
from models.base import new_id
from portal import audit
from portal.documents.intake import Admitted, Upload, admit
from portal.domain import Principal, Scope, Task, TaskPrompt
from portal.engine.base import Engine
from portal.errors import Forbidden, InvalidRequest, PageOutOfRange, Unauthenticated, Unavailable
from portal.jobs import claims, search
from portal.jobs.backlog import lock_backlog, refuse_backlog
from portal.jobs.context import DEFAULT, JobContext, require_task
from portal.jobs.queries import JobView, get_job
from portal.jobs.sweep import discard_blobs


@dataclass(frozen=True)
class Order:
    """What is asked for: the prompt, an engine by name, and page numbers (from 1) of each document, or all.

    `is_sample` says that the document is one that the portal drew itself; its pages cost nothing. Only the portal's
    own code may say so: no request carries it.
    """

    prompt: TaskPrompt = field(default_factory=TaskPrompt)
    engine: str = DEFAULT
    page_numbers: tuple[int, ...] | None = None
    is_sample: bool = False


@dataclass(frozen=True)
class _Stored:
    document_id: str
    admitted: Admitted
    page_numbers: tuple[int, ...]


def submit(context: JobContext, principal: Principal, uploads: Sequence[Upload], order: Order) -> JobView:
    """Accepts the uploads as one job and returns it, queued.

    Raises DocumentRefused (naming the file), TaskUnavailable, InvalidRequest, Forbidden, Busy or Unavailable;
    then nothing is stored. The uploads stay the caller's to remove.
    """
    engine = _check_order(context, principal, uploads, order)
    _refuse_when_full(context, principal, engine, pages=len(uploads))
    owner, limits = principal.tenant_id, context.settings.intake
    admitted = [admit(upload, context.sandbox, limits, owner=owner) for upload in uploads]
    chosen = [_chosen_pages(file, order.page_numbers) for file in admitted]
    with (
        _stored(context, principal, uploads, zip(admitted, chosen, strict=True)) as documents,
        context.database.transaction() as session,
    ):
        lock_backlog(session)
        refuse_backlog(session, principal.tenant_id, context, engine, pages=sum(len(pages) for pages in chosen))
        _refuse_revoked(session, principal)
        job = _insert(session, principal, documents, order, engine)
    context.notices.announce(job.id)
    try:
        return get_job(context, principal.tenant_id, job.id)
    except Unavailable as error:
        error.job_id = job.id
        error.remedy = "The job was accepted: do not send it again, ask for it by its id later."
        raise


def _check_order(context: JobContext, principal: Principal, uploads: Sequence[Upload], order: Order) -> Engine:
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
    require_task(engine, order.prompt.task)
    if order.prompt.task is Task.FIELDS and not order.prompt.fields:
        raise InvalidRequest(
            "The task 'fields' needs fields.", remedy="Send 'fields' (names or a JSON Schema) or a 'template'."
        )
    return engine


def _chosen_pages(file: Admitted, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
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


def _refuse_when_full(context: JobContext, principal: Principal, engine: Engine, *, pages: int) -> None:
    """The early look, before any file is opened; the one that counts is inside the transaction."""
    with context.database.reading() as session:
        refuse_backlog(session, principal.tenant_id, context, engine, pages=pages)


def _refuse_revoked(session: Session, principal: Principal) -> None:
    """A key may have ended while its upload came in; what it began must not be taken any more."""
    own = (ApiKey.tenant_id == principal.tenant_id, ApiKey.id == principal.api_key_id)
    revoked_at = session.scalar(select(ApiKey.revoked_at).where(*own)) if principal.api_key_id else None
    if revoked_at is not None:
        raise Unauthenticated("This API key was revoked.", code="api_key_revoked", remedy="Use another key.")


def _insert(session: Session, principal: Principal, documents: Sequence[_Stored], order: Order, engine: Engine) -> Job:
    job = Job(
        id=new_id("job"),
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        api_key_id=principal.api_key_id,
        task=order.prompt.task,
        prompt=claims.prompt_to_json(order.prompt),
        engine=engine.capability.name,
        engine_profile=engine.capability.profile_version,
        page_count=sum(len(document.page_numbers) for document in documents),
        is_sample=order.is_sample,
    )
    session.add(job)
    session.add_all(_document_row(principal, document) for document in documents)
    session.flush()
    session.add_all(_page_rows(job, documents))
    search.remember_names(session, job, [document.admitted.file_name for document in documents])
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
    return job


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


def _page_rows(job: Job, documents: Sequence[_Stored]) -> Iterator[Page]:
    numbered = [(document, number) for document in documents for number in document.page_numbers]
    for position, (document, number) in enumerate(numbered, start=1):
        yield Page(
            tenant_id=job.tenant_id,
            job_id=job.id,
            document_id=document.document_id,
            position=position,
            number=number,
        )
