"""The fields of a job's documents as its tenant sees them, and their correction by a person."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from models import DocumentRow, Job, Page
from models.base import now
from portal import audit
from portal.domain import FieldSpec, FieldType, PageState, Principal, Scope, Task
from portal.engine.fields.documents import judged, merged, needs_check
from portal.engine.fields.values import normalised
from portal.errors import Conflict, Forbidden, InvalidRequest, NotFound
from portal.jobs import claims
from portal.jobs.context import JobContext
from portal.page_text import FieldOriginal, FieldState, FieldValue
from portal.results.serial import field_from_json, field_to_json

MAX_VALUE = 2000
MAX_CORRECTIONS = 200
_PATH = re.compile(r"(?P<name>.+?)(?:\[(?P<at>\d{1,4})\](?:\.(?P<column>.+))?)?")


@dataclass(frozen=True)
class DocumentFields:
    """A document's values, judged by the rules. `first_page` is the position of its first page in the job."""

    document_id: str
    file_name: str
    first_page: int
    is_read: bool
    values: tuple[FieldValue, ...]

    @property
    def needs_check(self) -> bool:
        """True when a value breaks a rule or was found nowhere, and no person has checked it."""
        return self.is_read and needs_check(self.values)


def document_fields(
    context: JobContext, tenant_id: str, job_id: str
) -> tuple[tuple[FieldSpec, ...], list[DocumentFields]]:
    """What was asked, and each document's values in the order of the job. Raises NotFound, Conflict (no_fields)."""
    with context.database.reading() as session:
        job = session.scalars(select(Job).where(Job.tenant_id == tenant_id, Job.id == job_id)).one_or_none()
        if job is None:
            raise NotFound("There is no such job.")
        specs = _specs(job)
        rows = session.execute(
            select(Page.document_id, DocumentRow.file_name, Page.position, Page.state, Page.fields)
            .join(DocumentRow, DocumentRow.id == Page.document_id)
            .where(Page.tenant_id == tenant_id, Page.job_id == job_id)
            .order_by(Page.position)
        ).all()
    return specs, list(_documents(specs, rows))


@dataclass(frozen=True)
class Correction:
    """What a person says of one value: the position of its page, its path (results.field_paths), the value itself.

    None is 'not there'; the value that it has already is a check of it.
    """

    position: int
    path: str
    value: str | None


def correct(context: JobContext, principal: Principal, job_id: str, corrections: Sequence[Correction]) -> None:
    """Sets values of a job's fields to what a person says, all or none; what was read is kept beside each.

    Rules are judged anew whenever the fields are shown; nothing is charged. Raises Forbidden, NotFound for a job or a
    page that is not there, Conflict for a job without fields (no_fields) and while a page has none, InvalidRequest for
    no or more than MAX_CORRECTIONS corrections, a path that the page has not, a value that is none of the field's type.
    """
    if Scope.OCR not in principal.scopes:
        raise Forbidden("This key may not change jobs.", remedy="Use a key with the scope 'ocr'.")
    if not 1 <= len(corrections) <= MAX_CORRECTIONS:
        raise InvalidRequest(f"Correct 1 to {MAX_CORRECTIONS} values at once.", remedy="Send fewer, several times.")
    with context.database.transaction() as session:
        job = claims.locked_job(session, principal.tenant_id, job_id)
        if job is None:
            raise NotFound("There is no such job.")
        for correction in corrections:
            try:
                _correct_one(session, principal, job, correction)
            except InvalidRequest as error:
                if len(corrections) == 1:
                    raise
                raise _named(error, correction) from error


def _correct_one(session: Session, principal: Principal, job: Job, correction: Correction) -> None:
    specs = _specs(job)
    page = _page(session, principal.tenant_id, job.id, correction.position)
    if page is None:
        raise NotFound("There is no such page.")
    if page.state != PageState.SUCCEEDED or page.fields is None:
        raise Conflict("This page has no fields to correct.", remedy="Wait until it has been read.")
    corrected = _corrected(page.fields, specs, correction.path, correction.value, by=principal.label)
    if page.result is not None and "fields" not in page.result:
        page.result = {**page.result, "fields": page.fields}  # what re-runs take (portal/jobs/reruns.py)
    page.fields = corrected
    audit.record(
        session,
        "field.corrected",
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=job.id,
        address=principal.address,
        position=correction.position,
        path=correction.path[:200],
    )


def _named(error: InvalidRequest, correction: Correction) -> InvalidRequest:
    """The refusal with the value that it is about; nothing was changed of the others either."""
    told = f"Page {correction.position}, {correction.path[:100]}: {error.message} No value was changed."
    return InvalidRequest(told, remedy=error.remedy)


def _documents(specs: Sequence[FieldSpec], rows: Sequence[Any]) -> Iterator[DocumentFields]:
    by_document: dict[str, list[Any]] = {}
    for row in rows:
        by_document.setdefault(row.document_id, []).append(row)
    for document_id, pages in by_document.items():
        found = [(page.position, tuple(map(field_from_json, page.fields))) for page in pages if page.fields is not None]
        values = judged(specs, merged(specs, found)) if found else ()
        yield DocumentFields(document_id, pages[0].file_name, pages[0].position, bool(found), values)


def _specs(job: Job) -> tuple[FieldSpec, ...]:
    prompt = claims.prompt_of(job)
    if prompt.task is not Task.FIELDS:
        raise Conflict("The job has no fields.", code="no_fields", remedy="Submit the file with task=fields.")
    return prompt.fields


def _page(session: Session, tenant_id: str, job_id: str, position: int) -> Page | None:
    own = (Page.tenant_id == tenant_id, Page.job_id == job_id, Page.position == position)
    found = select(Page).where(*own).options(undefer(Page.result), undefer(Page.fields))
    return session.scalars(found.with_for_update()).one_or_none()


def _corrected(
    stored: list[dict[str, Any]], specs: Sequence[FieldSpec], path: str, value: str | None, *, by: str
) -> list[dict[str, Any]]:
    """The stored values with one corrected; a new list, so that the column is seen to change."""
    name, at, column = _parsed(path, specs)
    spec = next(spec for spec in specs if spec.name == name)
    values = [field_from_json(one) for one in stored]
    places = [place for place, one in enumerate(values) if one.name == name]
    index = 0 if column is not None else at
    if index >= len(places):
        raise _no_field(path)
    place = places[index]
    if column is None:
        values[place] = _checked(values[place], spec, value, by=by)
    else:
        values[place] = _with_cell(values[place], spec, (at, column), value, by=by)
    return [field_to_json(one) for one in values]


def _parsed(path: str, specs: Sequence[FieldSpec]) -> tuple[str, int, str | None]:
    """Name, index and column; a name that itself ends in brackets is taken as it is."""
    names = {spec.name: spec for spec in specs}
    if path in names and names[path].type is not FieldType.ROWS:
        return path, 0, None
    found = _PATH.fullmatch(path)
    if found is None or found["name"] not in names or found["at"] is None:
        raise _no_field(path)
    is_rows = names[found["name"]].type is FieldType.ROWS
    if is_rows != (found["column"] is not None):
        raise _no_field(path)
    return found["name"], int(found["at"]), found["column"]


def _with_cell(value: FieldValue, spec: FieldSpec, cell: tuple[int, str], given: str | None, *, by: str) -> FieldValue:
    at, column = cell
    child = next((child for child in spec.children if child.name == column), None)
    if child is None or at >= len(value.rows):
        raise _no_field(f"{spec.name}[{at}].{column}")
    row = tuple(_checked(one, child, given, by=by) if one.name == column else one for one in value.rows[at])
    return replace(value, rows=(*value.rows[:at], row, *value.rows[at + 1 :]))


def _checked(value: FieldValue, spec: FieldSpec, given: str | None, *, by: str) -> FieldValue:
    given = (given or "").strip()[:MAX_VALUE]
    found = normalised(given, spec) if given else None
    if given and found is None:
        raise InvalidRequest(
            f"'{given[:100]}' is no {_KINDS.get(spec.type, spec.type)}.",
            remedy=_EXAMPLES.get(spec.type, "Write another value."),
        )
    text, currency = (None, None) if found is None else (found.value, found.currency or value.currency)
    original = value.original or FieldOriginal(value.value, value.raw, value.currency)
    is_as_read = (text, currency) == (original.value, original.currency)
    return replace(
        value,
        value=text,
        currency=currency,
        state=FieldState.CHECKED,
        messages=(),
        original=None if is_as_read else original,
        checked_by=by,
        checked_at=now(),
    )


def _no_field(path: str) -> InvalidRequest:
    return InvalidRequest(
        f"The page has no field '{path[:100]}'.",
        remedy="Choose one of its values; `GET /v1/jobs/{id}/fields` lists their paths.",
    )


_KINDS = {FieldType.MONEY: "amount", FieldType.EMAIL: "e-mail address", FieldType.PHONE: "phone number"}
_EXAMPLES = {
    FieldType.DATE: "Write it like 2026-03-31.",
    FieldType.MONEY: "Write it like 1234.50 or 1.234,50 €.",
    FieldType.NUMBER: "Write a number.",
    FieldType.IBAN: "Its check digits must be right.",
    FieldType.EMAIL: "Write it like name@example.org.",
    FieldType.PHONE: "Write 6 to 15 digits.",
}
