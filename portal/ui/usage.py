"""The Usage page: how the tenant stands, what it used, its receipts, and asking for more.

Every member sees the whole tenant's use: a quota is shared, so who is refused must be able to see by what. What is
shown stands in the address (`/usage?days=…&sort=…&order=…&after=…`). Nothing here is kept between two events.
"""

from __future__ import annotations

import re
from typing import Any

import gradio as gr
from markupsafe import Markup

from models.base import now
from portal.domain import Role
from portal.errors import InvalidRequest
from portal.jobs.job_views import file_names
from portal.services import Services
from portal.ui import identity, markup, messages, shell, usage_view, usage_words
from portal.ui.usage_view import Asked
from portal.usage.forecast import runs_out_at
from portal.usage.more import ask_for_more, requests_for_more
from portal.usage.receipt_list import ReceiptsAsked, ReceiptSort, list_receipts
from portal.usage.reports import last_days, usage_report
from portal.usage.standing import standing_of
from portal.usage.zones import change_time_zone

_POLL_SECONDS = 10.0
_PAGE_SIZE = 50
_NUMBER = re.compile(r"\d{1,12}", re.ASCII)

# A form of the fragment sends its fields by name, and which form it is.
_FORMS_JS = """
element.addEventListener('submit', (event) => {
  event.preventDefault();
  const form = event.target.closest('form[data-form]');
  if (form) trigger('submit', { action: form.dataset.form, ...Object.fromEntries(new FormData(form)) });
});
"""


class UsagePage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def lay(self, page: gr.Blocks) -> None:
        """Places the fragments and wires their events; called inside the page's Blocks context."""
        head = shell.fragment("usage-head", usage_view.head(""))
        limits = shell.fragment("usage-limits")
        plots = shell.fragment("usage-plots")
        receipts = shell.fragment("usage-receipts")
        notice = shell.fragment("usage-notice")
        more = shell.fragment("usage-more", js_on_load=_FORMS_JS)
        zone = shell.fragment("usage-zone", js_on_load=_FORMS_JS)
        timer = gr.Timer(_POLL_SECONDS)
        whole = [head, limits, plots, receipts, more, zone]
        shell.on(page.load, messages.told(self._load), outputs=whole)
        shell.on(timer.tick, messages.polled(self._standing), outputs=[head, limits], queue=False)
        shell.on(more.submit, self._ask, outputs=[notice, more])
        shell.on(zone.submit, messages.told(self._change_zone), outputs=whole)

    def _load(self, request: gr.Request) -> tuple[Markup, ...]:
        principal, asked = identity.principal_of(request), _asked(request)
        tenant_id = principal.tenant_id
        with self._services.database.reading() as session:
            standing = standing_of(session, tenant_id)
            first, last = last_days(standing.period.day, asked.days)
            report = usage_report(session, tenant_id, first_day=first, last_day=last)
            wanted = ReceiptsAsked(
                first, last, asked.sort, asked.is_ascending, asked.after or None, limit=_PAGE_SIZE + 1
            )
            found = list_receipts(session, tenant_id, wanted)
            names = file_names(session, tenant_id, [one.job_id for one in found if one.job_id])
            requests = requests_for_more(session, tenant_id)
        has_more, zone_name = len(found) > _PAGE_SIZE, standing.terms.time_zone
        return (
            *self._standing(request),
            usage_view.plots(report, standing, asked),
            usage_view.receipts(found[:_PAGE_SIZE], asked, names, zone_name, has_more=has_more),
            usage_view.more(requests, standing, now(), identity.asked(request, "ask")),
            usage_view.zone(standing, is_owner=principal.role is Role.OWNER),
        )

    def _standing(self, request: gr.Request) -> tuple[Markup, Markup]:
        tenant_id = identity.principal_of(request).tenant_id
        with self._services.database.reading() as session:
            standing = standing_of(session, tenant_id)
            limit = usage_words.told_limit(standing)
            ends_at = runs_out_at(session, tenant_id, standing, limit) if limit else None
        return usage_view.head(usage_words.headline(standing, ends_at)), usage_view.limits(standing)

    def _ask(self, event: gr.EventData, request: gr.Request) -> tuple[Markup, Any]:
        principal = identity.principal_of(request)
        fields = {name: str(event._data.get(name) or "") for name in ("limit", "wanted", "reason")}
        try:
            if not _NUMBER.fullmatch(fields["wanted"]):
                raise InvalidRequest("How many you need is no whole number.", remedy="Write digits only, like 5000.")
            with self._services.database.transaction() as session:
                ask_for_more(session, principal, fields["limit"], int(fields["wanted"]), fields["reason"])
        except Exception as error:  # noqa: BLE001  messages.inline is the translator
            return messages.inline(error), gr.skip()
        with self._services.database.reading() as session:
            requests = requests_for_more(session, principal.tenant_id)
            standing = standing_of(session, principal.tenant_id)
        told = markup.notice("The admin has your request.", "The answer will stand here.", tone="plain")
        return told, usage_view.more(requests, standing, now(), fields["limit"])

    def _change_zone(self, event: gr.EventData, request: gr.Request) -> tuple[Markup, ...]:
        with self._services.database.transaction() as session:
            change_time_zone(session, identity.principal_of(request), str(event._data.get("zone") or ""))
        return self._load(request)


def _asked(request: gr.Request) -> Asked:
    days, sort = identity.asked(request, "days"), identity.asked(request, "sort")
    return Asked(
        days=int(days) if days in {str(known) for known in usage_view.RANGES} else Asked.days,
        sort=ReceiptSort(sort) if sort in tuple(ReceiptSort) else Asked.sort,
        is_ascending=identity.asked(request, "order") == "up",
        after=identity.asked(request, "after"),
    )
