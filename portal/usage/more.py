"""A tenant asks for more than its plan gives; the admin answers (elsewhere), and the tenant sees the answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import QuotaRequest, Tenant
from models.base import now
from portal import audit
from portal.domain import Limit, Principal
from portal.errors import Conflict, InvalidRequest
from portal.usage.limits import terms_of

ASKABLE = (
    Limit.PAGES_PER_DAY,
    Limit.PAGES_PER_MONTH,
    Limit.PAGES_IN_FLIGHT,
    Limit.REQUESTS_PER_MINUTE,
    Limit.UNCHARGED_PAGES_PER_DAY,
)
MAX_REASON = 1000
MAX_WANTED = 10**9


@dataclass(frozen=True)
class AskedForMore:
    """A request for more of a limit. `state` is open, granted or declined; `answer` what the admin wrote."""

    id: str
    limit: Limit
    wanted: int | None
    reason: str
    state: str
    answer: str | None
    created_at: datetime
    decided_at: datetime | None


def ask_for_more(session: Session, principal: Principal, limit: str, wanted: int, reason: str) -> AskedForMore:
    """Stores the request for the admin. Any member may ask.

    Raises InvalidRequest for another limit, a value that is no raise, or no reason; Conflict when the same limit is
    asked for already.
    """
    asked, reason = _askable(limit), _reason(reason)
    # Alone with the tenant: of two who ask at the same moment the second sees the first one's request.
    session.execute(select(Tenant.id).where(Tenant.id == principal.tenant_id).with_for_update(key_share=True))
    terms = terms_of(session, principal.tenant_id, at=now())
    allowed = terms.limits.value(asked)
    if allowed is None or not allowed < wanted <= MAX_WANTED:
        raise InvalidRequest(
            "There is no limit to raise."
            if allowed is None
            else f"{wanted:,} is not more than the {allowed:,.10g} there are.",
            remedy="Ask for more than the limit's present value.",
        )
    _refuse_repeated(session, principal.tenant_id, asked)
    row = QuotaRequest(
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        limit_name=asked.value,
        wanted=wanted,
        reason=reason,
        state="open",
        created_at=now(),
    )
    session.add(row)
    session.flush()
    audit.record(
        session,
        "quota_request.made",
        actor=principal.label,
        tenant_id=principal.tenant_id,
        target=row.id,
        address=principal.address,
        limit=asked.value,
        wanted=wanted,
    )
    return _view(row)


def requests_for_more(session: Session, tenant_id: str, *, limit: int = 10) -> list[AskedForMore]:
    """The tenant's requests, newest first."""
    rows = session.scalars(
        select(QuotaRequest)
        .where(QuotaRequest.tenant_id == tenant_id)
        .order_by(QuotaRequest.created_at.desc(), QuotaRequest.id)
        .limit(limit)
    )
    return [_view(row) for row in rows]


def _askable(limit: str) -> Limit:
    found = next((known for known in ASKABLE if known.value == limit), None)
    if found is None:
        raise InvalidRequest("There is no such limit to ask for.", remedy="Choose one of the list.")
    return found


def _reason(text: str) -> str:
    reason = " ".join(text.split())
    if not reason or len(reason) > MAX_REASON or not reason.isprintable():
        raise InvalidRequest(
            "The reason is missing."
            if not reason
            else f"The reason is longer than {MAX_REASON} characters, or no text.",
            remedy="Say in a sentence what the pages are for: the admin decides by it.",
        )
    return reason


def _refuse_repeated(session: Session, tenant_id: str, asked: Limit) -> None:
    is_open = (QuotaRequest.state == "open", QuotaRequest.limit_name == asked.value)
    if session.scalar(select(QuotaRequest.id).where(QuotaRequest.tenant_id == tenant_id, *is_open).limit(1)):
        raise Conflict(
            "A request for this limit is waiting for the admin already.",
            remedy="Wait for the answer; it is shown on the Usage page.",
        )


def _view(row: QuotaRequest) -> AskedForMore:
    return AskedForMore(
        id=row.id,
        limit=Limit(row.limit_name),
        wanted=None if row.wanted is None else int(row.wanted),
        reason=row.reason,
        state=row.state,
        answer=row.answer,
        created_at=row.created_at,
        decided_at=row.decided_at,
    )
