"""/v1/jobs/{id}/fields: the values of a job's documents, judged by the rules, and their correction by a person."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from portal.api import contract
from portal.api.access import Reader, Submitter
from portal.api.problems import ProblemRoute
from portal.http.field_reading import fields_shown
from portal.http.given import PortalServices
from portal.http.ids import JobId
from portal.jobs.fields import MAX_CORRECTIONS, MAX_VALUE, Correction, correct, document_fields
from portal.services import Services

_MAX_POSITION = 2**31 - 1  # what the column holds
_MAX_PATH = 500

routes = APIRouter(prefix="/v1/jobs", tags=["Jobs"], route_class=ProblemRoute)


class CorrectionOrder(BaseModel):
    """What a person says of one value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: Annotated[int, Field(ge=1, le=_MAX_POSITION)] = Field(description="The value's `page`", examples=[1])
    path: str = Field(min_length=1, max_length=_MAX_PATH, description="The value's `path`", examples=["total"])
    value: str | None = Field(
        max_length=MAX_VALUE,
        description="The right value, as the page or you write it (`19,00 €`, `3 March 2026`); the one that it has "
        "already marks it as checked, null says that the page has none",
        examples=["19.00"],
    )


class CorrectionsOrder(BaseModel):
    """Values that a person has looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corrections: list[CorrectionOrder] = Field(min_length=1, max_length=MAX_CORRECTIONS)


class DocumentFieldsBody(BaseModel):
    """A document's values."""

    id: str
    name: str
    first_page: int = Field(description="Position of its first page in the job")
    is_read: bool = Field(description="Whether a page of it has been read")
    needs_check: bool = Field(description="A value breaks a rule or was found nowhere, and no person has checked it")
    values: list[dict[str, Any]] = Field(
        description="Each with name, value (normalised, null where there is none), raw, currency, page, box, score, "
        "how (it was found), state (read, checked, rule_failed), messages, original (what was read, where a person "
        "corrected it), checked_by, checked_at, rows, and the path by which it is corrected"
    )


class FieldsBody(BaseModel):
    """The fields of a job: what was asked, and what each document says."""

    object: Literal["fields"] = "fields"
    job_id: str
    fields: list[dict[str, Any]] = Field(description="Rows as templates have them")
    documents: list[DocumentFieldsBody]


@routes.get(
    "/{job_id}/fields",
    summary="Look at a job's fields",
    responses=contract.reading("not_found", "no_fields", "invalid_request"),
)
def show_fields(services: PortalServices, principal: Reader, job_id: JobId) -> FieldsBody:
    """The values of each document, also while pages are still being read: `is_read` says whether there are any yet."""
    return _body(services, principal.tenant_id, job_id)


@routes.patch(
    "/{job_id}/fields",
    summary="Correct values, or mark them as checked",
    responses=contract.writing("malformed_body", "not_found", "conflict", "no_fields", "invalid_request"),
)
def correct_fields(
    services: PortalServices, principal: Submitter, job_id: JobId, order: CorrectionsOrder
) -> FieldsBody:
    """Sets the values that the body names, all or none of them, and answers with the fields judged anew.

    A value must be one of its field's type, and is normalised as one that was read. What was read is kept in
    `original`; who corrected it and when is told. The results as JSON and CSV have the corrected values. Nothing is
    charged.
    """
    corrections = [Correction(one.page, one.path, one.value) for one in order.corrections]
    correct(services.jobs, principal, job_id, corrections)
    return _body(services, principal.tenant_id, job_id)


def _body(services: Services, tenant_id: str, job_id: str) -> FieldsBody:
    specs, documents = document_fields(services.jobs, tenant_id, job_id)
    return FieldsBody(job_id=job_id, **fields_shown(specs, documents))
