"""A job's receipt: what was reserved, charged and returned, each with its reason, from the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from models import LedgerEntry

REASONS = {
    ("reserved", "submitted"): "set aside when the job was submitted",
    ("reserved", "retried"): "set aside when failed pages were retried",
    ("reserved", "request"): "set aside for a request",
    ("reserved", "sample"): "a sample: nothing is set aside",
    ("posted", "read"): "read",
    ("posted", "delivered"): "text delivered",
    ("posted", "blank_over_cap"): "blank, past the day's uncharged pages",
    ("posted", "failed_over_cap"): "failed, past the day's uncharged pages",
    ("posted", "truncated_over_cap"): "cut where the output repeated, past the day's uncharged pages",
    ("returned", "blank"): "no text found",
    ("returned", "failed"): "could not be read",
    ("returned", "truncated"): "cut where the output repeated",
    ("returned", "cancelled"): "cancelled before they were read",
    ("returned", "identical"): "read before, so free",
    ("returned", "charged_before"): "charged before, so free",
    ("returned", "sample"): "a sample, so free",
    ("returned", "late"): "ended after the job was closed",
    ("returned", "swept"): "given back when nobody worked on them any more",
    ("returned", "not_delivered"): "no text delivered",
    ("returned", "tenant_deleted"): "the tenant was deleted",
}


@dataclass(frozen=True)
class ReceiptLine:
    """`pages` pages that were reserved, posted or returned for one reason. Free pages count in `free_pages`."""

    kind: str
    reason: str
    pages: int
    free_pages: int = 0

    @property
    def words(self) -> str:
        """The reason, for people."""
        return REASONS.get((self.kind, self.reason), self.reason.replace("_", " "))


@dataclass(frozen=True)
class Receipt:
    """All lines of one job, and their sums in pages."""

    lines: tuple[ReceiptLine, ...]

    @property
    def reserved(self) -> int:
        """Pages set aside, over all reservations of the job."""
        return self._sum("reserved")

    @property
    def charged(self) -> int:
        """Pages posted: what the job cost."""
        return self._sum("posted")

    @property
    def returned(self) -> int:
        """Pages given back."""
        return self._sum("returned")

    @property
    def pending(self) -> int:
        """Pages reserved and neither posted nor returned yet."""
        return self.reserved - self.charged - self.returned

    def _sum(self, kind: str) -> int:
        return sum(line.pages for line in self.lines if line.kind == kind)


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """The receipt as API users and exports have it: sums in pages, and each line with its reason in words."""
    return {
        "reserved": receipt.reserved,
        "charged": receipt.charged,
        "returned": receipt.returned,
        "pending": receipt.pending,
        "lines": [asdict(line) | {"words": line.words} for line in receipt.lines],
    }


def receipt_text(receipt: Receipt) -> str:
    """The receipt as lines of plain text, for people."""
    names = {"reserved": "reserved", "posted": "charged", "returned": "returned"}
    sums = f"{receipt.reserved} reserved, {receipt.charged} charged, {receipt.returned} returned"
    if receipt.pending:
        sums += f", {receipt.pending} pending"
    rows = [f"  {names[line.kind]:<9} {line.pages or line.free_pages:>6}  {line.words}" for line in receipt.lines]
    return "\n".join([f"Pages: {sums}.", *rows])


def receipts(session: Session, tenant_id: str, job_ids: Sequence[str]) -> dict[str, Receipt]:
    """Job → its receipt; an unknown job has an empty one."""
    found = lines_by(session, tenant_id, LedgerEntry.job_id, job_ids)
    return {job_id: Receipt(found.get(job_id, ())) for job_id in job_ids}


def lines_by(
    session: Session, tenant_id: str, column: InstrumentedAttribute[Any], ids: Sequence[str]
) -> dict[str, tuple[ReceiptLine, ...]]:
    """The lines of each job or reservation, `column` of the ledger saying of which; none for one without entries."""
    entry = LedgerEntry
    free = func.count(entry.page_id).filter(entry.pages == 0)
    rows = session.execute(
        select(column, entry.kind, entry.reason, func.sum(entry.pages), free)
        .where(entry.tenant_id == tenant_id, column.in_(ids))
        .group_by(column, entry.kind, entry.reason)
        .order_by(entry.kind.desc(), entry.reason)
    )
    lines: dict[str, tuple[ReceiptLine, ...]] = {}
    for found, kind, reason, pages, free_pages in rows:
        if pages or free_pages:
            lines[found] = (*lines.get(found, ()), ReceiptLine(kind, reason, int(pages), int(free_pages)))
    return lines
