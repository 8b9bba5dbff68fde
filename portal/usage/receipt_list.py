"""The receipts of a tenant: a line for each reservation, with what became of its pages; sorted, read on by cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from models import ApiKey, LedgerEntry, Member, Reservation
from models.base import within_calendar
from portal.db import Database
from portal.errors import InvalidRequest
from portal.usage.receipts import Receipt, ReceiptLine, lines_by

MAX_LISTED = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = re.compile(r"(\d{1,17})-(\w{1,40})", re.ASCII)


class ReceiptSort(StrEnum):
    """What receipts are sorted by: when pages were reserved, or a number of pages."""

    TIME = "time"
    RESERVED = "reserved"
    CHARGED = "charged"
    RETURNED = "returned"


@dataclass(frozen=True)
class ReceiptsAsked:
    """Which receipts: of these days, in this order, at most `limit` (1–1000), after the cursor of the last one seen."""

    first_day: str
    last_day: str
    sort: ReceiptSort = ReceiptSort.TIME
    is_ascending: bool = False
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True)
class ListedReceipt:
    """A reservation with its receipt. `occasion` is why pages were asked for: submitted, retried or request.

    `job_id` may name a job that was deleted since, None is the chat door. `cursor` is where a list goes on after it.
    """

    id: str
    created_at: datetime
    day: str
    job_id: str | None
    task: str
    engine: str
    occasion: str
    key_name: str | None
    member_email: str | None
    receipt: Receipt
    cursor: str


def list_receipts(session: Session, tenant_id: str, asked: ReceiptsAsked) -> list[ListedReceipt]:
    """The tenant's receipts, samples left out. Raises InvalidRequest for a cursor that is none."""
    rows = session.execute(
        select(Reservation, ApiKey.name, Member.email)
        .outerjoin(ApiKey, (ApiKey.id == Reservation.api_key_id) & (ApiKey.tenant_id == tenant_id))
        .outerjoin(Member, (Member.id == Reservation.member_id) & (Member.tenant_id == tenant_id))
        .where(Reservation.tenant_id == tenant_id, Reservation.reason != "sample", *_of_days(asked), *_after(asked))
        .order_by(*_order(asked))
        .limit(min(max(asked.limit, 1), MAX_LISTED))
    ).all()
    lines = lines_by(session, tenant_id, LedgerEntry.reservation_id, [row[0].id for row in rows])
    return [_listed(held, name, email, lines.get(held.id, ()), asked.sort) for held, name, email in rows]


def all_receipts(database: Database, tenant_id: str, asked: ReceiptsAsked) -> Iterator[ListedReceipt]:
    """All receipts of the asked days in the asked order, a batch in memory at a time; no session is held between two.

    Those that are made meanwhile are left out where newest ones come first.
    """
    asked = replace(asked, limit=MAX_LISTED)
    while True:
        with database.reading() as session:
            batch = list_receipts(session, tenant_id, asked)
        yield from batch
        if len(batch) < MAX_LISTED:
            return
        asked = replace(asked, after=batch[-1].cursor)


def _of_days(asked: ReceiptsAsked) -> tuple[ColumnElement[bool], ...]:
    # The days are the tenant's own; the times, a day wider than any zone, let the index by time be used.
    days = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (asked.first_day, asked.last_day))
    first, last = map(within_calendar, days)
    margin = timedelta(days=2)
    return (
        Reservation.day.between(asked.first_day, asked.last_day),
        Reservation.created_at.between(first - margin, last + margin),
    )


def _after(asked: ReceiptsAsked) -> tuple[ColumnElement[bool], ...]:
    if asked.after is None:
        return ()
    found = _CURSOR.fullmatch(asked.after)
    if found is None:
        raise InvalidRequest("after: is no place in the list.", remedy="Send the cursor of the last receipt seen.")
    value: object = int(found[1])
    if asked.sort is ReceiptSort.TIME:
        value = _EPOCH + timedelta(microseconds=int(found[1]))
    here, place = tuple_(_column(asked.sort), Reservation.id), tuple_(value, found[2])
    return (here > place if asked.is_ascending else here < place,)


def _order(asked: ReceiptsAsked) -> tuple[ColumnElement[Any], ...]:
    columns = (_column(asked.sort), Reservation.id)
    return tuple(column.asc() if asked.is_ascending else column.desc() for column in columns)


def _column(sort: ReceiptSort) -> InstrumentedAttribute[Any]:
    columns: dict[ReceiptSort, InstrumentedAttribute[Any]] = {
        ReceiptSort.TIME: Reservation.created_at,
        ReceiptSort.RESERVED: Reservation.pages,
        ReceiptSort.CHARGED: Reservation.posted,
        ReceiptSort.RETURNED: Reservation.returned,
    }
    return columns[sort]


def _listed(
    held: Reservation, key_name: str | None, email: str | None, lines: tuple[ReceiptLine, ...], sort: ReceiptSort
) -> ListedReceipt:
    at = (held.created_at - _EPOCH) // timedelta(microseconds=1)
    values = {ReceiptSort.RESERVED: held.pages, ReceiptSort.CHARGED: held.posted, ReceiptSort.RETURNED: held.returned}
    return ListedReceipt(
        id=held.id,
        created_at=held.created_at,
        day=held.day,
        job_id=held.job_id,
        task=held.task,
        engine=held.engine,
        occasion=held.reason,
        key_name=key_name,
        member_email=email,
        receipt=Receipt(lines),
        cursor=f"{values.get(sort, at)}-{held.id}",
    )
