"""What files would cost, before anything is spent: pages, what is left, seconds, and why it would be refused.

Files are opened in the sandbox as a submission opens them, in the tenant's turns. Nothing is stored, reserved, or
counted as a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portal.documents.intake import Upload, admit, clean_file_name
from portal.domain import Principal
from portal.engine.base import Engine
from portal.errors import DocumentRefused, PageOutOfRange, PortalError
from portal.jobs.backlog import refuse_early
from portal.jobs.context import JobContext
from portal.jobs.forecast import Forecast
from portal.jobs.submission import Order, check_order, chosen_pages, intake_of
from portal.settings import IntakeSettings
from portal.usage.standing import TenantStanding, standing_of


@dataclass(frozen=True)
class FilePrice:
    """One file: how many pages it has and how many of them would be read; or why it would be refused."""

    file_name: str
    page_count: int = 0
    pages: int = 0
    error: PortalError | None = None


@dataclass(frozen=True)
class Price:
    """What a job of these files would cost at this moment.

    `refusal` is what a submission would answer now, None when it would be accepted; `eta_seconds` until its last page.
    """

    files: tuple[FilePrice, ...]
    standing: TenantStanding
    refusal: PortalError | None
    eta_seconds: float

    @property
    def pages(self) -> int:
        """Pages that would be reserved, of all files that can be read."""
        return sum(file.pages for file in self.files)


def price(context: JobContext, principal: Principal, uploads: Sequence[Upload], order: Order) -> Price:
    """Prices the uploads under the order. They stay the caller's to remove.

    Raises what makes any order impossible: InvalidRequest, TaskUnavailable, Forbidden, Busy (too many files are being
    opened), Unavailable. A file that cannot be read is named in `files` instead, so that the others are counted.
    """
    engine = check_order(context, principal, uploads, order)
    with context.database.reading() as session:
        intake = intake_of(context, standing_of(session, principal.tenant_id).terms.limits)
    files = tuple(_file(context, upload, order, intake, owner=principal.tenant_id) for upload in uploads)
    pages = sum(file.pages for file in files)
    with context.database.reading() as session:
        standing = standing_of(session, principal.tenant_id)
        seconds = Forecast(session, context).of_new(principal.tenant_id, engine.capability.name, pages)
    refusal = next((file.error for file in files if file.error), None) or _refusal(context, principal, engine, pages)
    return Price(files, standing, refusal, seconds)


def _file(context: JobContext, upload: Upload, order: Order, intake: IntakeSettings, *, owner: str) -> FilePrice:
    name = clean_file_name(upload.file_name)
    try:
        admitted = admit(upload, context.sandbox, intake, owner=owner)
    except DocumentRefused as refusal:
        return FilePrice(name, error=refusal)
    count = admitted.inspection.page_count
    try:
        return FilePrice(name, count, len(chosen_pages(admitted, order.page_numbers)))
    except PageOutOfRange as refusal:
        return FilePrice(name, count, error=refusal)


def _refusal(context: JobContext, principal: Principal, engine: Engine, pages: int) -> PortalError | None:
    try:
        with context.database.reading() as session:
            refuse_early(session, context, principal, engine, pages=pages)
    except PortalError as refusal:
        return refusal
    return None
