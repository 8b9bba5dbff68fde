"""The results of several jobs as one zip, a file for each job, for whoever selected them in the history."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from typing import IO

from portal.errors import InvalidRequest
from portal.jobs.context import JobContext
from portal.jobs.queries import JobView, export_job, get_job
from portal.results.export import ExportFormat
from portal.usage.receipts import receipt_json, receipt_text

MAX_JOBS = 200
# Text deflates to a few kilobytes a page: some 50,000 pages. It lies on the disk of the uploads until it is downloaded.
MAX_BYTES = 256 * 2**20
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # what a zip can say


def write_bundle(
    context: JobContext,
    tenant_id: str,
    job_ids: Sequence[str],
    format: ExportFormat,
    target: IO[bytes],
    *,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Writes the zip to `target`, a few pages in memory at a time, each file dated as its job; then their receipts.

    Raises NotFound when one is missing or another tenant's, Conflict when nothing of one was read yet, and
    InvalidRequest for none or more than MAX_JOBS, and (export_too_large) when the zip would pass `max_bytes`.
    """
    chosen = distinct_jobs(job_ids)
    taken: set[str] = set()
    receipts: list[tuple[str, JobView]] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for job_id in chosen:
            job = get_job(context, tenant_id, job_id)
            found = export_job(context, tenant_id, job_id, format, partial=True)
            name = zipfile.ZipInfo(_unused(found.file_name, taken), max(job.created_at.timetuple()[:6], _EARLIEST))
            name.compress_type = zipfile.ZIP_DEFLATED
            with bundle.open(name, "w") as file:
                for chunk in found.chunks:
                    file.write(chunk)
                    refuse_beyond(target, max_bytes)
            refuse_beyond(target, max_bytes)  # what the compressor still held
            receipts.append((name.filename, job))
        _write_receipts(bundle, receipts, taken)


def distinct_jobs(job_ids: Sequence[str]) -> list[str]:
    """Each once, in order. Raises InvalidRequest for none, and for more than MAX_JOBS."""
    chosen = list(dict.fromkeys(job_ids))
    if not 1 <= len(chosen) <= MAX_JOBS:
        raise InvalidRequest(f"An export takes 1 to {MAX_JOBS} jobs.", remedy="Select fewer jobs.")
    return chosen


def refuse_beyond(target: IO[bytes], max_bytes: int) -> None:
    """Raises InvalidRequest (export_too_large) when more than `max_bytes` were written to `target`."""
    if target.tell() > max_bytes:
        raise InvalidRequest(
            f"The export would be larger than {max_bytes // 2**20} MB.",
            code="export_too_large",
            remedy="Select fewer jobs and export the rest afterwards, or download large jobs one by one.",
        )


def _write_receipts(bundle: zipfile.ZipFile, receipts: Sequence[tuple[str, JobView]], taken: set[str]) -> None:
    """What each job cost and why: a text for people, the same as JSON for programs."""
    texts = [f"{file_name}\nJob {job.id}\n{receipt_text(job.receipt)}\n" for file_name, job in receipts]
    content = [{"file": file_name, "job_id": job.id, **receipt_json(job.receipt)} for file_name, job in receipts]
    bundle.writestr(_unused("receipt.txt", taken), "\n".join(texts))
    bundle.writestr(_unused("receipt.json", taken), json.dumps(content, ensure_ascii=False, indent=1))


def _unused(file_name: str, taken: set[str]) -> str:
    """The name, numbered where it is taken; case does not tell files apart everywhere."""
    stem, _, suffix = file_name.rpartition(".")
    name, number = file_name, 1
    while name.casefold() in taken:
        number += 1
        name = f"{stem} ({number}).{suffix}"
    taken.add(name.casefold())
    return name
