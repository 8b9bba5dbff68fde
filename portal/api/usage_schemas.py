"""Bodies of what the API says about use, prices and receipts. Pages are counts; times ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from portal.api.body import Body
from portal.domain import Limit, Standing
from portal.errors import LimitReached, PortalError
from portal.http.problems import retry_after_seconds, without_keys
from portal.jobs.price import FilePrice, Price
from portal.usage.receipts import Receipt, receipt_json
from portal.usage.reports import DayUse, Share, UsageReport
from portal.usage.standing import TenantStanding


class ReceiptLineBody(Body):
    """`pages` pages that were reserved, posted (charged) or returned for one reason."""

    kind: Literal["reserved", "posted", "returned"]
    reason: str
    pages: int
    free_pages: int = Field(description="Pages that cost nothing from the start, counted beside `pages`")
    words: str = Field(description="The reason, for people")


class ReceiptBody(Body):
    """What a job reserved, was charged and got back. `pending` ones are reserved and not ended yet."""

    reserved: int
    charged: int
    returned: int
    pending: int
    lines: list[ReceiptLineBody]


class StandingBody(Body):
    """How the tenant stands against one limit."""

    limit: Limit
    allowed: int | None = Field(description="null: no limit")
    used: int
    remaining: int | None
    resets_at: datetime | None = Field(description="When the count starts anew; null: what is counted ends by itself")
    is_nearest: bool = Field(description="The limit that is nearest to refusing")


class PagesBody(Body):
    """Pages by what became of them. Only `charged` ones cost."""

    charged: int
    blank: int
    failed: int
    truncated: int
    free: int = Field(description="Read before, a sample's, or ended after the job was closed")
    returned: int = Field(description="Reserved and not read: cancelled, not delivered, given back")


class DayBody(PagesBody):
    """One day in the tenant's time zone."""

    day: str
    refused_requests: int
    refused_pages: int


class ShareBody(PagesBody):
    """What went to one task, key or member; `id` is null for work without a key or a member."""

    id: str | None
    name: str


class RefusedBody(Body):
    """Requests that a limit refused, and the pages they asked for."""

    code: str
    limit: str
    requests: int
    pages: int


class UsageBody(Body):
    """A tenant's use: how it stands now, and what it used over some days."""

    object: Literal["usage"] = "usage"
    plan: str
    time_zone: str
    first_day: str
    last_day: str
    limits: list[StandingBody]
    runs_out_at: datetime | None = Field(
        description="When the nearest limit will be used up at the present pace; null: not before it resets"
    )
    total: PagesBody
    days: list[DayBody]
    tasks: list[ShareBody]
    keys: list[ShareBody]
    members: list[ShareBody]
    refused: list[RefusedBody]


class RefusalBody(Body):
    """What a submission would be refused with, as its problem would say it."""

    code: str
    detail: str
    remedy: str
    limit: str | None = None
    allowed: int | None = None
    used: int | None = None
    retry_after_seconds: int | None = None


class FilePriceBody(Body):
    """A file's pages, how many of them would be read, and why it would be refused."""

    file_name: str
    page_count: int
    pages: int = Field(description="Pages that would be read, of those that are asked for")
    free_pages: int = Field(description="The others that are asked for: read before in the same way, they cost nothing")
    error: RefusalBody | None


class PriceBody(Body):
    """What a job would cost now. Nothing was stored or reserved; asking counted as one of the requests a minute."""

    object: Literal["price"] = "price"
    pages: int = Field(description="Pages that would be reserved; they count against the limits")
    free_pages: int = Field(description="Pages beside them that were read before in the same way: they cost nothing")
    pages_left: int | None = Field(description="Pages that may be asked for now, by the tightest limit; null: no limit")
    is_accepted: bool = Field(description="POST /v1/jobs with the same form would be accepted at this moment")
    refusal: RefusalBody | None
    eta_seconds: float = Field(description="Until the last page would be read, about")
    files: list[FilePriceBody]
    limits: list[StandingBody]


def receipt_body(receipt: Receipt) -> ReceiptBody:
    """A receipt."""
    return ReceiptBody.model_validate(receipt_json(receipt))


def standing_bodies(standing: TenantStanding) -> list[StandingBody]:
    """Against each counted limit."""
    nearest = standing.nearest
    return [_standing(one, is_nearest=nearest is not None and one.limit == nearest.limit) for one in standing.standings]


def usage_body(
    standing: TenantStanding, report: UsageReport, *, days: tuple[str, str], runs_out_at: datetime | None
) -> UsageBody:
    """The standing and the report of the `days` from the first to the last."""
    return UsageBody(
        plan=standing.terms.plan,
        time_zone=standing.terms.time_zone,
        first_day=days[0],
        last_day=days[1],
        limits=standing_bodies(standing),
        runs_out_at=runs_out_at,
        total=PagesBody.model_validate(report.total),
        days=[_day(day) for day in report.days],
        tasks=[_share(share) for share in report.tasks],
        keys=[_share(share) for share in report.keys],
        members=[_share(share) for share in report.members],
        refused=[RefusedBody.model_validate(row) for row in report.refused],
    )


def price_body(found: Price) -> PriceBody:
    """A price."""
    return PriceBody(
        pages=found.pages,
        free_pages=found.free_pages,
        pages_left=found.standing.pages_left,
        is_accepted=found.refusal is None,
        refusal=_refusal(found.refusal),
        eta_seconds=found.eta_seconds,
        files=[_file(file) for file in found.files],
        limits=standing_bodies(found.standing),
    )


def _standing(standing: Standing, *, is_nearest: bool) -> StandingBody:
    return StandingBody(
        limit=standing.limit,
        allowed=standing.allowed,
        used=standing.used,
        remaining=standing.remaining,
        resets_at=standing.resets_at,
        is_nearest=is_nearest,
    )


def _day(day: DayUse) -> DayBody:
    own = {"day": day.day, "refused_requests": day.refused_requests, "refused_pages": day.refused_pages}
    return DayBody.model_validate(asdict(day.pages) | own)


def _share(share: Share) -> ShareBody:
    return ShareBody.model_validate(asdict(share.pages) | {"id": share.id, "name": share.name})


def _file(file: FilePrice) -> FilePriceBody:
    return FilePriceBody(
        file_name=file.file_name,
        page_count=file.page_count,
        pages=file.pages,
        free_pages=file.free_pages,
        error=_refusal(file.error),
    )


def _refusal(error: PortalError | None) -> RefusalBody | None:
    if error is None:
        return None
    binding: dict[str, Any] = {}
    if isinstance(error, LimitReached):
        binding = {"limit": error.limit, "allowed": error.allowed, "used": error.used}
    return RefusalBody(
        code=error.code,
        detail=without_keys(error.message),
        remedy=without_keys(error.remedy),
        retry_after_seconds=retry_after_seconds(error),
        **binding,
    )
