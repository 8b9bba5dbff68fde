"""The fields of several jobs as one CSV, documents × fields, for whoever selected them in the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from sqlalchemy import select

from models import Job
from portal.domain import FieldSpec, Task
from portal.errors import Conflict, NotFound
from portal.jobs import claims
from portal.jobs.bundle import MAX_BYTES, distinct_jobs, refuse_beyond
from portal.jobs.context import JobContext
from portal.jobs.fields import document_fields
from portal.results.field_csv import FieldColumns


def write_field_table(
    context: JobContext,
    tenant_id: str,
    job_ids: Sequence[str],
    target: IO[bytes],
    *,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Writes the CSV to `target`, a job in memory at a time, in the order of `job_ids`, without jobs of other tasks.

    Its columns are all fields that any of the jobs asked for, in the order they first come. Raises NotFound when a job
    is missing or another tenant's, Conflict (no_fields) when none has fields, InvalidRequest as write_bundle does.
    """
    asked = _asked(context, tenant_id, distinct_jobs(job_ids))
    if not asked:
        raise Conflict("None of the jobs has fields.", code="no_fields", remedy="Select jobs of the task 'fields'.")
    columns = FieldColumns(list(asked.values()))
    target.write(columns.head().encode())
    for job_id in asked:
        specs, documents = document_fields(context, tenant_id, job_id)
        for one in documents:
            lines = columns.lines(specs, job_id, (one.file_name, one.needs_check, one.values))
            target.write("".join(lines).encode("utf-8", errors="replace"))
            refuse_beyond(target, max_bytes)


def _asked(context: JobContext, tenant_id: str, job_ids: Sequence[str]) -> dict[str, tuple[FieldSpec, ...]]:
    """What each of the jobs with fields asked for."""
    with context.database.reading() as session:
        found = session.scalars(select(Job).where(Job.tenant_id == tenant_id, Job.id.in_(job_ids))).all()
        prompts = {job.id: claims.prompt_of(job) for job in found}
    if len(prompts) < len(job_ids):
        raise NotFound("There is no such job.")
    return {job_id: prompts[job_id].fields for job_id in job_ids if prompts[job_id].task is Task.FIELDS}
