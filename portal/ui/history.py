"""The History: the tenant's jobs in three groups, with open, cancel and delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import gradio as gr
from markupsafe import Markup

from portal.domain import JobState
from portal.errors import InvalidRequest
from portal.jobs import endings, queries
from portal.jobs.queries import JobView
from portal.services import Services
from portal.ui import identity, job_view, markup, messages, shell, words

_POLL_SECONDS = 3.0
_PAGE_SIZE = 50
_GROUPS = (
    ("Needs attention", frozenset({JobState.FAILED, JobState.PARTIAL})),
    ("Running", frozenset({JobState.QUEUED, JobState.RUNNING})),
    ("Done", frozenset({JobState.SUCCEEDED, JobState.CANCELLED})),
)


class HistoryPage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._jobs = services.jobs

    def lay(self, page: gr.Blocks) -> None:
        """Places the list and wires its events; called inside the page's Blocks context."""
        shell.fragment("history-head", Markup('<div class="lead"><h1>History</h1></div>'))
        listing = shell.fragment("history-list")
        timer = gr.Timer(_POLL_SECONDS)
        shell.on(page.load, messages.told(self._list), outputs=listing)
        shell.on(timer.tick, messages.polled(self._list), outputs=listing, queue=False)
        shell.on(listing.submit, messages.told(self._act), outputs=listing)

    def _list(self, request: gr.Request) -> str:
        tenant_id = identity.principal_of(request).tenant_id
        before = identity.asked(request, "before") or None
        jobs = queries.list_jobs(self._jobs, tenant_id, limit=_PAGE_SIZE, before=before)
        return listing(jobs, datetime.now(UTC), is_first=before is None)

    def _act(self, event: gr.EventData, request: gr.Request) -> str:
        principal = identity.principal_of(request)
        action, job_id = str(event._data.get("action")), str(event._data.get("target"))
        if action == "cancel":
            endings.cancel(self._jobs, principal, job_id)
        elif action == "delete":
            endings.delete(self._jobs, principal, job_id)
        else:
            raise InvalidRequest("That action does not exist.", remedy="Reload the page.")
        return self._list(request)


def listing(jobs: Sequence[JobView], now: datetime, *, is_first: bool) -> Markup:
    """The groups that have jobs, newest first; a link to older ones when the page is full."""
    if not jobs:
        return _nothing(is_first=is_first)
    groups = markup.joined(
        _group(title, [job for job in jobs if job.state in states], now) for title, states in _GROUPS
    )
    newest = Markup("") if is_first else Markup('<a class="button" href="/history">Newest</a>')
    older = Markup("")
    if len(jobs) == _PAGE_SIZE:
        older = Markup('<a class="button" href="/history?before={}">Older</a>').format(jobs[-1].cursor)
    return Markup('{}<p class="paging">{}{}</p>').format(groups, newest, older)


def _nothing(*, is_first: bool) -> Markup:
    if not is_first:
        return Markup('<p class="paging"><a class="button" href="/history">Newest</a></p>')
    title = "Nothing read yet"
    return Markup('{}<p class="paging"><a class="button primary" href="/">Read a scan</a></p>').format(
        markup.empty(title, "Jobs appear here as soon as you submit a scan, from this browser or with an API key.")
    )


def _group(title: str, jobs: Sequence[JobView], now: datetime) -> Markup:
    if not jobs:
        return Markup("")
    return Markup('<section class="group"><h2>{} <small>{}</small></h2><ul class="entries">{}</ul></section>').format(
        title, len(jobs), markup.joined(_row(job, now) for job in jobs)
    )


def _row(job: JobView, now: datetime) -> Markup:
    return Markup(
        '<li class="entry" data-job="{0}"><div class="entry-main"><a class="entry-title" href="/?job={0}">{1}</a>'
        '<p class="entry-facts">{2}</p></div><div class="entry-state">{3}<small>{4}</small></div>'
        '<div class="entry-actions">{5}</div></li>'
    ).format(
        job.id,
        job_view.heading(job),
        _facts(job, now),
        markup.badge(job.state, words.JOB_STATES[job.state]),
        _counts(job),
        _actions(job),
    )


def _facts(job: JobView, now: datetime) -> Markup:
    via = "API key" if job.via == "key" else "browser"
    task, _ = words.TASKS[job.prompt.task]
    return Markup("{} · {} · {} · {}").format(
        markup.moment(job.created_at, now), task, job.submitted_by or "deleted member", via
    )


def _counts(job: JobView) -> str:
    done = f"{job.pages_done} of {words.counted(job.page_count, 'page')}"
    return f"{done}, {job.pages_failed} failed" if job.pages_failed else done


def _actions(job: JobView) -> Markup:
    name = job_view.heading(job)
    if not job.is_final:
        return Markup(
            '<button type="button" class="button" data-action="cancel" data-target="{0}" aria-label="Cancel {1}">'
            "Cancel</button>"
        ).format(job.id, name)
    return Markup(
        '<button type="button" class="button" data-action="delete" data-target="{0}" aria-label="Delete {1}"'
        ' data-confirm="Delete {1}?" data-detail="The files, page images and texts of this job go for good."'
        ' data-yes="Delete">Delete</button>'
    ).format(job.id, name)
