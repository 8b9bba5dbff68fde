"""The Workspace: drop scans, choose a task, run (portal/ui/intake_form.py); then watch a job and read its pages.

The job belongs to the backend. The page's address (`/?job=…&at=…`) says what is shown, so a reload, another tab
or another device shows the same; a timer asks for news while there is work.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gradio as gr

from portal.domain import Principal
from portal.errors import InvalidRequest, NotFound, Unavailable
from portal.jobs import endings, history, queries
from portal.jobs.queries import JobView
from portal.jobs.retry import retry as retry_pages
from portal.services import Services
from portal.ui import (
    field_review,
    file_list,
    identity,
    intake_form,
    job_view,
    markup,
    messages,
    retry,
    shell,
    viewer,
)
from portal.ui.intake_form import IntakeForm

_POLL_SECONDS = 0.5
_POLL_SECONDS_LONG = 0.8  # a page is shown within a second of being stored, in long jobs too
_LONG_JOB_PAGES = 100


class WorkspacePage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._jobs = services.jobs
        self._form = IntakeForm(services)

    def lay(self, page: gr.Blocks) -> None:
        """Places the components and wires the events; called inside the page's Blocks context."""
        with gr.Column(elem_id="intake") as self._intake:
            self._form.lay()
        self._head, self._notice = self._form.head, self._form.notice
        with gr.Column(visible=False, elem_id="job") as self._job:
            self._lay_job()
        self._shown = gr.State("")
        self._timer = gr.Timer(_POLL_SECONDS, active=False)
        self._wire(page)

    def _lay_job(self) -> None:
        self._bar = shell.fragment("job-bar")
        self._progress = shell.fragment("job-progress")
        self._viewer = viewer.page_viewer("page-viewer")

    def _wire(self, page: gr.Blocks) -> None:
        job = [self._job, self._bar, self._progress, self._viewer, self._shown, self._timer]
        views = [self._intake, self._head, self._notice, *job]
        refresh = messages.told(self._refresh)
        for shown in (page.load, self._form.drop.submit):
            shell.on(shown, refresh, outputs=views)
        for run in self._form.wire(page):
            attached = shell.on(run.then, None, inputs=self._form.started, js=file_list.ATTACH_JS)
            shell.on(attached.then, messages.told(self._attach), inputs=self._form.started, outputs=views)
        for component in (self._bar, self._viewer):
            shell.on(component.submit, messages.told(self._act), outputs=views)
        shell.on(self._timer.tick, messages.polled(self._tick), inputs=self._shown, outputs=views, queue=False)

    def _attach(self, started: str, request: gr.Request) -> Any:
        return self._refresh(request) if started else gr.skip()

    def _act(self, event: gr.EventData, request: gr.Request) -> dict[Any, Any]:
        principal, job_id = identity.principal_of(request), identity.asked(request, "job")
        match event._data.get("action"):
            case "retry":
                position = retry.position(event._data.get("target"))
                retry_pages(self._jobs, principal, job_id, None if position is None else [position])
            case "cancel":
                endings.cancel(self._jobs, principal, job_id)
            case "correct":
                return self._corrected(principal, job_id, event._data.get("target"))
            case _:
                raise InvalidRequest("There is no such action.", remedy="Reload the page.")
        return self._refresh(request)

    def _corrected(self, principal: Principal, job_id: str, target: object) -> dict[Any, Any]:
        """Stores what a person says of a value; the viewer is told the refusal, beside the value."""
        try:
            field_review.correct(self._jobs, principal, job_id, target)
            problem = None
        except Exception as error:  # noqa: BLE001  messages.plain is the translator
            problem = messages.plain(error)
        job = queries.get_job(self._jobs, principal.tenant_id, job_id)
        return {self._viewer: viewer.standing(job, told=field_review.told(target, problem))}

    def _tick(self, shown: str, request: gr.Request) -> dict[Any, Any]:
        """As `_refresh`, but the pages' rows are read only when one of them has changed since `shown`."""
        tenant_id, job_id = identity.principal_of(request).tenant_id, identity.asked(request, "job")
        if shown and job_id:
            with suppress(NotFound):  # deleted meanwhile, which the refresh says
                job, mark = queries.job_summary(self._jobs, tenant_id, job_id)
                if mark == shown and not job.is_final:  # how one ended is told page by page
                    return self._job_views(job)
        return self._refresh(request, shown)

    def _refresh(self, request: gr.Request, shown: str | None = None) -> dict[Any, Any]:
        """Everything the address asks for; of a job that is `shown` already only what may change."""
        tenant_id = identity.principal_of(request).tenant_id
        job_id = identity.asked(request, "job")
        if not job_id:
            return self._only_intake("")
        try:
            _, mark = queries.job_summary(self._jobs, tenant_id, job_id)  # before the pages: it may be too old only
            job = queries.get_job(self._jobs, tenant_id, job_id)
        except NotFound as error:
            return self._only_intake(markup.notice("Job not found", messages.sentence(error)))
        if shown is None:  # opened or acted on by a person; a tick in a background tab looks at nothing
            with suppress(Unavailable):
                history.look(self._jobs, tenant_id, job)
        return self._job_views(job) | self._page_views(job, request, shown) | {self._shown: mark}

    def _only_intake(self, notice: str) -> dict[Any, Any]:
        return {
            self._intake: gr.Column(visible=True),
            self._head: intake_form.HEAD,
            self._job: gr.Column(visible=False),
            self._notice: notice,
            self._timer: gr.Timer(active=False),
        }

    def _job_views(self, job: JobView) -> dict[Any, Any]:
        seconds = _POLL_SECONDS_LONG if job.page_count > _LONG_JOB_PAGES else _POLL_SECONDS
        return {
            self._intake: gr.Column(visible=False),
            self._head: "",  # hidden, but its h1 would still be there
            self._job: gr.Column(visible=True),
            self._notice: "",
            self._bar: job_view.bar(job),
            self._progress: job_view.progress(job) + job_view.receipt(job),
            self._timer: gr.Timer(value=seconds, active=not job.is_final),
        }

    def _page_views(self, job: JobView, request: gr.Request, shown: str | None) -> dict[Any, Any]:
        if shown:
            return {self._viewer: viewer.standing(job)}
        return {self._viewer: viewer.shown(job, identity.base_url_of(request, self._services.settings))}
