"""What files would cost, before anything is spent: pages, what is left, seconds, and why it would be refused.

Files are opened in the sandbox as a submission opens them, in the tenant's turns, and pages that were read before in
the same way are free as they are there. Nothing is stored, reserved or counted here: POST /v1/price counts a request
before it asks (portal/api/usage.py), the Workspace does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from portal.documents.intake import Upload, admit, clean_file_name
from portal.domain import Principal
from portal.engine.base import Engine
from portal.errors import DocumentRefused, PageOutOfRange, PortalError
from portal.jobs.backlog import refuse_early
from portal.jobs.context import JobContext
from portal.jobs.forecast import Forecast
from portal.jobs.reruns import Way, readings
from portal.jobs.submission import Order, check_order, chosen_pages, intake_of, way_of
from portal.settings import IntakeSettings
from portal.usage.standing import TenantStanding, standing_of


@dataclass(frozen=True)
class FilePrice:
    """One file: how many pages it has, the numbers of those that are wanted, and which of them are free.

    Free are those that were read before in the same way. `error` is why the file would be refused.
    """

    file_name: str
    page_count: int = 0
    numbers: tuple[int, ...] = ()
    free: frozenset[int] = frozenset()
    error: PortalError | None = None

    @property
    def pages(self) -> int:
        """Pages that would be reserved."""
        return len(self.numbers) - self.free_pages

    @property
    def free_pages(self) -> int:
        """Pages that were read before in the same way: they would be there at once, and cost nothing."""
        return len(self.free)


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

    @property
    def free_pages(self) -> int:
        """Pages that were read before in the same way, beside `pages`."""
        return sum(file.free_pages for file in self.files)


def price(context: JobContext, principal: Principal, uploads: Sequence[Upload], order: Order) -> Price:
    """Prices the uploads under the order. They stay the caller's to remove.

    Raises what makes any order impossible: InvalidRequest, TaskUnavailable, Forbidden, Busy (too many files are being
    opened), Unavailable. A file that cannot be read is named in `files` instead, so that the others are counted.
    """
    engine = check_order(context, principal, uploads, order)
    with context.database.reading() as session:
        intake = intake_of(context, standing_of(session, principal.tenant_id).terms.limits)
    opened = [_file(context, upload, order, intake, owner=principal.tenant_id) for upload in uploads]
    with context.database.reading() as session:
        files = _with_free(session, way_of(principal.tenant_id, order, engine), opened, is_fresh=order.is_fresh)
        pages = sum(file.pages for file in files)
        standing = standing_of(session, principal.tenant_id)
        seconds = Forecast(session, context).of_new(principal.tenant_id, engine.capability.name, pages)
    refusal = next((file.error for file in files if file.error), None) or _refusal(context, principal, engine, pages)
    return Price(files, standing, refusal, seconds)


def _file(
    context: JobContext, upload: Upload, order: Order, intake: IntakeSettings, *, owner: str
) -> tuple[FilePrice, str]:
    """The file as if nothing of it were free, and the SHA-256 of its bytes ('' where it is refused)."""
    name = clean_file_name(upload.file_name)
    try:
        admitted = admit(upload, context.sandbox, intake, owner=owner)
    except DocumentRefused as refusal:
        return FilePrice(name, error=refusal), ""
    count = admitted.inspection.page_count
    try:
        return FilePrice(name, count, chosen_pages(admitted, order.page_numbers)), admitted.sha256
    except PageOutOfRange as refusal:
        return FilePrice(name, count, error=refusal), ""


def _with_free(
    session: Session, way: Way, opened: Sequence[tuple[FilePrice, str]], *, is_fresh: bool
) -> tuple[FilePrice, ...]:
    if is_fresh:
        return tuple(file for file, _ in opened)
    keys = [{number: way.key(sha256, number) for number in file.numbers} for file, sha256 in opened]
    read = readings(session, way.tenant_id, [key for own in keys for key in own.values()], is_held=False)
    return tuple(
        replace(file, free=frozenset(number for number, key in own.items() if key in read))
        for (file, _), own in zip(opened, keys, strict=True)
    )


def _refusal(context: JobContext, principal: Principal, engine: Engine, pages: int) -> PortalError | None:
    try:
        with context.database.reading() as session:
            refuse_early(session, context, principal, engine, pages=pages)
    except PortalError as refusal:
        return refusal
    return None
