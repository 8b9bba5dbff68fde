"""Tenants' requests for more, as an admin sees and decides them; a tenant makes and reads its own elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from models import Member, QuotaRequest, Tenant
from models.base import now
from portal import audit
from portal.audit import Actor, Outcome
from portal.domain import Limit
from portal.errors import Conflict, InvalidRequest, NotFound
from portal.usage.limit_edits import LimitEdit, change
from portal.usage.limits import terms_of

MAX_ANSWER_LENGTH = 1000
_MOST_DECIDED = 50


@dataclass(frozen=True)
class QuotaAsk:
    """One request: who asks for how much of which limit, what it has now, and what became of it."""

    id: str
    tenant_id: str
    tenant_name: str
    member: str | None
    limit: Limit
    present: float | None
    wanted: float | None
    reason: str
    state: str
    answer: str | None
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime


def list_requests(session: Session, *, only_open: bool = False) -> list[QuotaAsk]:
    """Open ones first, the oldest before; then the 50 decided last."""
    waiting = _asks(session, QuotaRequest.state == "open")
    if only_open:
        return sorted(waiting, key=lambda ask: ask.created_at)
    decided = _asks(session, QuotaRequest.state != "open")
    latest = sorted(decided, key=lambda ask: ask.decided_at or ask.created_at, reverse=True)
    return [*sorted(waiting, key=lambda ask: ask.created_at), *latest[:_MOST_DECIDED]]


def grant(
    session: Session,
    actor: Actor,
    request_id: str,
    *,
    value: float | None = None,
    answer: str = "",
    until: datetime | None = None,
) -> QuotaAsk:
    """Gives the tenant what it wants, or `value` instead, with an end perhaps; the change can be undone as any.

    Raises NotFound (quota_request_unknown), Conflict (quota_request_decided), InvalidRequest as `limit_edits.change`.
    """
    row = _open(session, request_id)
    given = row.wanted if value is None else value
    if given is None:
        raise InvalidRequest("No value is given.", code="limit_invalid", remedy="Say how much it gets.")
    edit = LimitEdit(limits={Limit(row.limit_name): given}, reason=f"asked for: {row.reason}"[:300], until=until)
    change(session, actor, row.tenant_id, edit)
    return _decided(session, actor, row, ("granted", answer), {row.limit_name: given})


def decline(session: Session, actor: Actor, request_id: str, *, answer: str) -> QuotaAsk:
    """Says no, with words that the tenant reads.

    Raises NotFound (quota_request_unknown), Conflict (quota_request_decided), InvalidRequest (answer_invalid).
    """
    row = _open(session, request_id)
    if not answer.strip():
        raise InvalidRequest(
            "An answer is needed.", code="answer_invalid", remedy="Say why not: the tenant reads these words."
        )
    return _decided(session, actor, row, ("declined", answer), None)


def limit_of(session: Session, request_id: str) -> Limit:
    """Which limit a request that waits is about. Raises NotFound and Conflict."""
    return Limit(_open(session, request_id).limit_name)


def _open(session: Session, request_id: str) -> QuotaRequest:
    row = session.scalars(select(QuotaRequest).where(QuotaRequest.id == request_id).with_for_update()).one_or_none()
    if row is None:
        raise NotFound("There is no such request for more.", code="quota_request_unknown")
    if row.state != "open":
        raise Conflict(f"The request was {row.state} already.", code="quota_request_decided")
    return row


def _decided(
    session: Session, actor: Actor, row: QuotaRequest, decision: tuple[str, str], given: dict[str, float] | None
) -> QuotaAsk:
    state, answer = decision
    row.state, row.answer = state, _checked_answer(answer)
    row.decided_by, row.decided_at = audit.label_of(actor), now()
    session.flush()
    audit.record(
        session,
        f"quota_request.{state}",
        actor=actor,
        tenant_id=row.tenant_id,
        target=row.id,
        outcome=Outcome(before={"wanted": row.wanted}, after=given),
        limit=row.limit_name,
    )
    return _asks(session, QuotaRequest.id == row.id)[0]


def _checked_answer(answer: str) -> str | None:
    answer = " ".join(answer.split())
    if len(answer) > MAX_ANSWER_LENGTH:
        raise InvalidRequest(
            f"The answer has {len(answer)} characters.",
            code="answer_invalid",
            remedy=f"Write at most {MAX_ANSWER_LENGTH}.",
        )
    return answer or None


def _asks(session: Session, condition: object) -> list[QuotaAsk]:
    rows = session.execute(
        select(QuotaRequest, Tenant.name, Member.email)
        .join(Tenant, Tenant.id == QuotaRequest.tenant_id)
        .outerjoin(Member, Member.id == QuotaRequest.member_id)
        .where(condition)  # type: ignore[arg-type]
    ).all()
    return [_view(session, row, name, email) for row, name, email in rows]


def _view(session: Session, row: QuotaRequest, tenant_name: str, member: str | None) -> QuotaAsk:
    limit = Limit(row.limit_name)
    return QuotaAsk(
        id=row.id,
        tenant_id=row.tenant_id,
        tenant_name=tenant_name,
        member=member,
        limit=limit,
        present=terms_of(session, row.tenant_id, at=now()).limits.value(limit),
        wanted=row.wanted,
        reason=row.reason,
        state=row.state,
        answer=row.answer,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        created_at=row.created_at,
    )
