"""The History page: the tenant's jobs in three groups, searched, opened, and ended or exported one by one or in bulk.

What is shown stands in the address (`/history?group=…&q=…&before=…`), so a reload or another device shows the same.
Which rows are ticked is known to the browser alone (static/history.js): the list is drawn anew as jobs go on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import gradio as gr
from markupsafe import Markup

from portal.domain import Principal
from portal.errors import Busy, InvalidRequest, PortalError, TooSlow
from portal.jobs import deletion, endings, history
from portal.jobs.history import Group
from portal.jobs.retry import retry
from portal.services import Services
from portal.ui import history_list, identity, markup, messages, shell, words
from portal.ui.history_list import Asked, Shown

_POLL_SECONDS = 3.0
_PAGE_SIZE = 50
_MAX_AT_ONCE = 200
_DELETIONS = 20
_NAMED_REFUSALS = 3


class HistoryPage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._jobs = services.jobs
        self._actions: dict[str, tuple[Callable[[Principal, str], object], str]] = {
            "retry": (lambda principal, job_id: retry(self._jobs, principal, job_id), "Retrying the failed pages of"),
            "cancel": (lambda principal, job_id: endings.cancel(self._jobs, principal, job_id), "Cancelled"),
            "delete": (lambda principal, job_id: endings.delete(self._jobs, principal, job_id), "Deleted"),
        }

    def lay(self, page: gr.Blocks) -> None:
        """Places the search, the bar and the list and wires their events; called inside the page's Blocks context."""
        head = shell.fragment("history-head", history_list.head(""))
        notice = shell.fragment("history-notice")
        bar = shell.fragment("history-bar", history_list.bar())
        listing = shell.fragment("history-list")
        timer = gr.Timer(_POLL_SECONDS)
        shell.on(page.load, messages.told(self._load), outputs=[head, listing])
        shell.on(timer.tick, messages.polled(self._tick), outputs=listing, queue=False)
        shell.on(head.submit, messages.told(self._search), outputs=[listing, notice], trigger_mode="always_last")
        for fragment in (bar, listing):
            shell.on(fragment.submit, messages.told(self._act), outputs=[listing, notice])

    def _load(self, request: gr.Request) -> tuple[Markup, Markup]:
        return history_list.head(_asked(request).text), self._list_or_reason(request)

    def _search(self, request: gr.Request) -> tuple[Markup, str]:
        return self._list_or_reason(request), ""

    def _tick(self, request: gr.Request) -> Any:
        # A search reads texts; what it found changes too little to be worth that every few seconds.
        return gr.skip() if _asked(request).text.strip() else self._list(request)

    def _list(self, request: gr.Request) -> Markup:
        tenant_id, asked = identity.principal_of(request).tenant_id, _asked(request)
        groups = list(Group) if asked.group is None else [asked.group]
        shown = [self._group(tenant_id, group, asked) for group in groups]
        drawn = history_list.listing(shown, asked, datetime.now(UTC))
        if asked != Asked():
            return drawn
        found = deletion.list_deletions(self._jobs, tenant_id, limit=_DELETIONS)
        return drawn + history_list.deletions(found, datetime.now(UTC))

    def _list_or_reason(self, request: gr.Request) -> Markup:
        """The list; where it cannot be had, why, in its place: a message that fades would leave an empty page."""
        try:
            return self._list(request)
        except Exception as error:  # noqa: BLE001  messages.inline is the translator
            is_narrower_better = isinstance(error, Busy | TooSlow)
            return history_list.refused(messages.inline(error), _asked(request), offers_groups=is_narrower_better)

    def _group(self, tenant_id: str, group: Group, asked: Asked) -> Shown:
        jobs = history.find(
            self._jobs,
            tenant_id,
            group=group,
            text=asked.text,
            limit=_PAGE_SIZE + 1,
            before=None if asked.group is None else asked.before or None,
        )
        return Shown(group, jobs[:_PAGE_SIZE], has_older=len(jobs) > _PAGE_SIZE)

    def _act(self, event: gr.EventData, request: gr.Request) -> tuple[Markup, Markup]:
        principal = identity.principal_of(request)
        chosen = [job_id for job_id in str(event._data.get("target") or "").split(",") if job_id]
        action = self._actions.get(str(event._data.get("action")))
        if action is None or not 1 <= len(chosen) <= _MAX_AT_ONCE:
            raise InvalidRequest("That cannot be done.", remedy="Reload the page and select the jobs again.")
        act, done_words = action
        if len(chosen) == 1:
            act(principal, chosen[0])
            return self._list_or_reason(request), Markup("")
        return self._list_after(request, done_words, _each(act, principal, chosen))

    def _list_after(
        self, request: gr.Request, done_words: str, refusals: list[PortalError | None]
    ) -> tuple[Markup, Markup]:
        return self._list_or_reason(request), _outcome(done_words, refusals)


def _each(
    act: Callable[[Principal, str], object], principal: Principal, job_ids: list[str]
) -> list[PortalError | None]:
    """Each in a transaction of its own: one that is refused stops no other."""
    refusals: list[PortalError | None] = []
    for job_id in job_ids:
        try:
            act(principal, job_id)
            refusals.append(None)
        except PortalError as error:
            refusals.append(error)
    return refusals


def _outcome(done_words: str, refusals: list[PortalError | None]) -> Markup:
    refused = [messages.sentence(error) for error in refusals if error is not None]
    done = f"{done_words} {words.counted(len(refusals) - len(refused), 'job')}."
    if not refused:
        return markup.notice(done, "", tone="plain")
    reasons = " ".join(list(dict.fromkeys(refused))[:_NAMED_REFUSALS])
    return markup.notice(f"{done} {len(refused)} left as they were.", reasons, tone="warning")


def _asked(request: gr.Request) -> Asked:
    wanted = identity.asked(request, "group")
    group = Group(wanted) if wanted in tuple(Group) else None
    return Asked(group, identity.asked(request, "q"), identity.asked(request, "before") if group else "")
