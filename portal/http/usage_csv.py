"""A tenant's receipts as CSV, for both HTTP edges: one line for each job, retry or request."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from starlette.responses import StreamingResponse

from portal.db import Database
from portal.http.csv_lines import Cell, csv_lines
from portal.http.downloads import download_headers
from portal.usage.receipt_list import ListedReceipt, ReceiptsAsked, all_receipts
from portal.usage.reports import days_between
from portal.usage.standing import standing_of

_HEADER = (
    *("time", "day", "job_id", "task", "engine", "occasion", "api_key", "member"),
    *("reserved", "charged", "returned", "pending", "free", "reasons"),
)


def usage_csv(database: Database, tenant_id: str, *, first_day: str | None, last_day: str | None) -> StreamingResponse:
    """All receipts from the first to the last day, oldest first, as a download; the default is the present month.

    Raises InvalidRequest for an impossible range.
    """
    with database.reading() as session:
        standing = standing_of(session, tenant_id)
    asked = asked_days(first_day, last_day, today=standing.period.day)
    zone = ZoneInfo(standing.terms.time_zone)
    found = all_receipts(database, tenant_id, asked)
    rows: Iterator[tuple[Cell, ...]] = (_row(receipt, zone) for receipt in found)
    name = f"usage-{asked.first_day}-to-{asked.last_day}.csv"
    return StreamingResponse(
        csv_lines(_HEADER, rows), media_type="text/csv; charset=utf-8", headers=download_headers(name)
    )


def asked_days(first_day: str | None, last_day: str | None, *, today: str) -> ReceiptsAsked:
    """The receipts of these days, oldest first; what is left out is today, and the first of the last day's month."""
    last = last_day or today
    first = first_day or f"{last[:7]}-01"
    days_between(first, last)
    return ReceiptsAsked(first, last, is_ascending=True)


def _row(listed: ListedReceipt, zone: ZoneInfo) -> tuple[Cell, ...]:
    receipt = listed.receipt
    returned = [line for line in receipt.lines if line.kind != "reserved"]
    return (
        listed.created_at.astimezone(zone).isoformat(timespec="seconds"),
        listed.day,
        listed.job_id,
        listed.task,
        listed.engine,
        listed.occasion,
        listed.key_name,
        listed.member_email,
        receipt.reserved,
        receipt.charged,
        receipt.returned,
        receipt.pending,
        sum(line.free_pages for line in receipt.lines),
        "; ".join(f"{line.pages or line.free_pages} {line.words}" for line in returned),
    )
