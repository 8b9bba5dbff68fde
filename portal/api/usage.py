"""/v1/usage and /v1/price: what a tenant used, how it stands, and what files would cost before they are read."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from portal.api import contract
from portal.api.access import Reader, Submitter
from portal.api.incoming import request_folder
from portal.api.job_orders import TEXT_NAMES, order_from
from portal.api.multipart_form import read_form
from portal.api.problems import ProblemRoute
from portal.api.usage_schemas import PriceBody, UsageBody, price_body, usage_body
from portal.documents.intake import Upload
from portal.domain import Principal
from portal.http.given import PortalServices
from portal.http.usage_csv import usage_csv
from portal.jobs.price import price
from portal.jobs.templates import get_template
from portal.services import Services
from portal.usage.admission import count_request
from portal.usage.forecast import runs_out_at
from portal.usage.refusals import counting_refusals
from portal.usage.reports import DEFAULT_DAYS, last_days, usage_report
from portal.usage.standing import standing_of

routes = APIRouter(prefix="/v1", tags=["Usage"], route_class=ProblemRoute)

FirstDay = Annotated[date | None, Query(description="In the tenant's time zone, such as 2026-11-01")]
LastDay = Annotated[date | None, Query(description="The default is today; at most 366 days after the first")]


@routes.get("/usage", summary="See what was used", responses=contract.reading("invalid_request"))
def show_usage(
    services: PortalServices, principal: Reader, first_day: FirstDay = None, last_day: LastDay = None
) -> UsageBody:
    """How the tenant stands against each limit, and its pages by day, task, key and member over some days.

    The whole tenant's use, for each of its members and keys with the scope `read`. Without days it is the last 30.
    """
    with services.database.reading() as session:
        standing = standing_of(session, principal.tenant_id)
        days = _days(first_day, last_day, standing.period.day)
        report = usage_report(session, principal.tenant_id, first_day=days[0], last_day=days[1])
        nearest = standing.nearest
        ends_at = runs_out_at(session, principal.tenant_id, standing, nearest) if nearest else None
    return usage_body(standing, report, days=days, runs_out_at=ends_at)


@routes.get(
    "/usage.csv", summary="Download the receipts", response_class=StreamingResponse, responses=contract.usage_csv()
)
def download_usage(
    services: PortalServices, principal: Reader, first_day: FirstDay = None, last_day: LastDay = None
) -> StreamingResponse:
    """A line for each job, retry or request: what it reserved, was charged and got back, and why; oldest first.

    Without days it is the present month. A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    first, last = (None if day is None else day.isoformat() for day in (first_day, last_day))
    return usage_csv(services.database, principal.tenant_id, first_day=first, last_day=last)


@routes.post(
    "/price",
    summary="Ask what files would cost",
    response_description="The price; nothing was stored or reserved",
    responses=contract.price(),
    openapi_extra=contract.JOB_FORM,
)
async def ask_price(request: Request, services: PortalServices, principal: Submitter) -> PriceBody:
    """Takes the form of POST /v1/jobs and says what that would answer now: pages, what is left, about how long.

    Pages that were read before in the same way are free: `free_pages` counts them.
    The files are opened and counted, then forgotten: nothing is stored or reserved. That is work, so asking is one of
    the tenant's requests a minute. `refusal` is what a submission would be refused with at this moment; a file that
    cannot be read is named in `files`.
    """
    limits = services.settings.intake
    await run_in_threadpool(_count, services, principal)
    async with request_folder(services.settings.store.data_dir) as folder:
        form = await read_form(request, folder, limits=limits, text_names=TEXT_NAMES)
        find = partial(get_template, services.jobs, principal.tenant_id)
        order = await run_in_threadpool(order_from, form.texts, max_pages=limits.max_document_pages, find_template=find)
        uploads = [Upload(file.file_name, file.path) for file in form.files]
        return price_body(await run_in_threadpool(price, services.jobs, principal, uploads, order))


def _count(services: Services, principal: Principal) -> None:
    database = services.database
    with counting_refusals(database, principal.tenant_id), database.transaction() as session:
        count_request(session, principal)


def _days(first_day: date | None, last_day: date | None, today: str) -> tuple[str, str]:
    last = today if last_day is None else last_day.isoformat()
    return last_days(last, DEFAULT_DAYS) if first_day is None else (first_day.isoformat(), last)
