"""A quiet line under the header of every page: a threshold that was passed."""

from __future__ import annotations

from typing import Any

import gradio as gr
from markupsafe import Markup

from models.base import now
from portal.domain import Limit
from portal.errors import InvalidRequest
from portal.services import Services
from portal.ui import identity, markup, messages, shell, usage_words
from portal.usage.notices import PERCENTS, Notice, close_notice, open_notices
from portal.usage.standing import TenantStanding, standing_of

_MOST_PAGES = 2**31 - 1  # of a limit


class QuotaLine:
    """Lays the line out on one page and answers its button."""

    def __init__(self, services: Services) -> None:
        self._database = services.database

    def lay(self, page: gr.Blocks) -> None:
        """Places the line, filled by the page's load event; called inside the page's Blocks context."""
        line = shell.fragment("quota-line")
        shell.on(page.load, messages.polled(self._load), outputs=line, queue=False)
        shell.on(line.submit, messages.told(self._close), outputs=line)

    def _load(self, request: gr.Request) -> Markup:
        tenant_id = identity.principal_of(request).tenant_id
        with self._database.reading() as session:
            standing = standing_of(session, tenant_id)
            found = open_notices(session, tenant_id, standing)
        return lines(found, standing)

    def _close(self, event: gr.EventData, request: gr.Request) -> Markup:
        tenant_id, chosen = identity.principal_of(request).tenant_id, notice_of(event._data)
        with self._database.transaction() as session:
            close_notice(session, tenant_id, chosen, at=now())
        return self._load(request)


def lines(found: list[Notice], standing: TenantStanding) -> Markup:
    """What there is to tell; nothing most of the time."""
    return markup.joined(_line(one, standing) for one in found)


def _line(one: Notice, standing: TenantStanding) -> Markup:
    level = "full" if one.percent == PERCENTS[-1] else "warn" if one.percent >= PERCENTS[1] else "calm"
    return Markup(
        '<div class="quota-line" data-level="{}" role="status"><p>{} <a href="/usage">Usage</a></p>'
        '<button type="button" class="quiet" data-action="close-notice" data-target="{}:{}:{}:{}"'
        ' aria-label="Close this notice">Close</button></div>'
    ).format(level, usage_words.notice(one, standing), one.limit.value, one.period, one.percent, one.allowed)


def notice_of(sent: Any) -> Notice:
    """The notice whose button was pressed. Raises InvalidRequest for what no button sends."""
    parts = str(sent.get("target") or "").split(":")
    if len(parts) != 4 or not _is_notice(*parts):
        raise InvalidRequest("There is no such notice.", remedy="Reload the page.")
    limit, period, percent, allowed = parts
    return Notice(Limit(limit), period, int(percent), int(allowed))


def _is_notice(limit: str, period: str, percent: str, allowed: str) -> bool:
    is_count = allowed.isascii() and allowed.isdigit() and len(allowed) <= 10 and int(allowed) <= _MOST_PAGES
    return limit in tuple(Limit) and len(period) <= 10 and percent in map(str, PERCENTS) and is_count
