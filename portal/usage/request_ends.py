"""The end of a request at the door: its one page is posted when text was delivered, else returned; once.

The same as `ledger` does for pages of jobs, in three statements that are built once: a request is short, and its end
should be too. Order of locks: the reservation's row, then the tenant's counters.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Integer, String, bindparam, case, insert, update
from sqlalchemy.orm import Session

from models import LedgerEntry, Reservation, TenantUsage
from models.base import UTCDateTime, new_id, now

_HELD, _USAGE = Reservation.__table__.c, TenantUsage.__table__.c
_POSTED, _RETURNED = bindparam("one_posted", type_=Integer), bindparam("one_returned", type_=Integer)
_TENANT = bindparam("of_tenant", type_=String)
_DAY, _MONTH = bindparam("of_day", type_=String), bindparam("of_month", type_=String)
_TERMS: Final = ("member_id", "api_key_id", "job_id", "task", "engine", "day", "month")

_CLOSE = (
    update(Reservation.__table__)  # type: ignore[arg-type]
    .where(
        _HELD.tenant_id == _TENANT,
        _HELD.id == bindparam("of_reservation", type_=String),
        _HELD.pages == 1,
        _HELD.posted + _HELD.returned == 0,
    )
    .values(posted=_POSTED, returned=_RETURNED, closed_at=bindparam("at", type_=UTCDateTime()))
    .returning(*(_HELD[name] for name in _TERMS))
)
_COUNT = (
    update(TenantUsage.__table__)  # type: ignore[arg-type]
    .where(_USAGE.tenant_id == _TENANT)
    .values(
        pending_pages=_USAGE.pending_pages - 1,
        day_pages=case((_USAGE.day == _DAY, _USAGE.day_pages - _RETURNED), else_=_USAGE.day_pages),
        day_posted=case((_USAGE.day == _DAY, _USAGE.day_posted + _POSTED), else_=_USAGE.day_posted),
        month_pages=case((_USAGE.month == _MONTH, _USAGE.month_pages - _RETURNED), else_=_USAGE.month_pages),
        month_posted=case((_USAGE.month == _MONTH, _USAGE.month_posted + _POSTED), else_=_USAGE.month_posted),
    )
)
_ENTER = insert(LedgerEntry.__table__)  # type: ignore[arg-type]


def end_request(session: Session, tenant_id: str, reservation_id: str, *, is_delivered: bool) -> None:
    """Posts the page of a request, or returns it; does nothing when it ended before, or was swept."""
    at = now()
    counted = {"of_tenant": tenant_id, "one_posted": int(is_delivered), "one_returned": int(not is_delivered)}
    closing = {**counted, "of_reservation": reservation_id, "at": at}
    terms = session.execute(_CLOSE, closing).mappings().one_or_none()
    if terms is None:
        return
    session.execute(_COUNT, {**counted, "of_day": terms["day"], "of_month": terms["month"]})
    session.execute(
        _ENTER,
        {
            **terms,
            "id": new_id("led"),
            "tenant_id": tenant_id,
            "reservation_id": reservation_id,
            "page_id": None,
            "kind": "posted" if is_delivered else "returned",
            "reason": "delivered" if is_delivered else "not_delivered",
            "pages": 1,
            "created_at": at,
        },
    )
