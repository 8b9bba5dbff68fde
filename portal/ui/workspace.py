"""The Workspace: drop scans, choose a task, run; then watch a job and read its pages.

The job belongs to the backend. The page's address (`/?job=…&at=…`) says what is shown, so a reload, another tab
or another device shows the same; a timer asks for news while there is work.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from portal.documents.intake import Upload
from portal.domain import Principal, Task
from portal.errors import InvalidRequest, NotFound, PortalError, Unavailable
from portal.jobs import endings, history, queries, submission, templates
from portal.jobs.free_samples import look_before_drawing
from portal.jobs.price import price
from portal.jobs.queries import JobView
from portal.jobs.retry import retry as retry_pages
from portal.jobs.submission import Order
from portal.services import Services
from portal.ui import (
    engine_choice,
    field_form,
    field_review,
    file_list,
    identity,
    job_view,
    markup,
    messages,
    offer,
    order_form,
    page_range,
    price_view,
    retry,
    samples,
    shell,
    viewer,
)

_POLL_SECONDS = 0.5
_POLL_SECONDS_LONG = 0.8  # a page is shown within a second of being stored, in long jobs too
_LONG_JOB_PAGES = 100

_TASK_JS = """
element.addEventListener('change', (event) => { props.value = event.target.value; });
"""

_INTAKE_HEAD = Markup(
    '<div class="lead"><h1>Read a scan</h1><p>Scans, photos and PDFs. The text opens beside each page '
    "as soon as it is read.</p></div>"
)


class WorkspacePage:
    """Lays the page out and answers its events."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._jobs = services.jobs

    def lay(self, page: gr.Blocks) -> None:
        """Places the components and wires the events; called inside the page's Blocks context."""
        with gr.Column(elem_id="intake") as self._intake:
            self._lay_intake()
        with gr.Column(visible=False, elem_id="job") as self._job:
            self._lay_job()
        self._shown = gr.State("")
        self._timer = gr.Timer(_POLL_SECONDS, active=False)
        self._wire(page)

    def _lay_intake(self) -> None:
        self._head = shell.fragment("intake-head", _INTAKE_HEAD)
        self._notice = shell.fragment("notice")
        with gr.Row(elem_id="intake-card"):
            with gr.Column(scale=3, min_width=300):
                zone = file_list.drop_zone(self._services.settings.intake)
                self._drop = shell.fragment("drop", zone, js_on_load=file_list.DROP_JS)
            with gr.Column(scale=2, min_width=280, elem_id="choices"):
                self._lay_choices()
        self._samples = shell.fragment("samples", file_list.gallery())

    def _lay_choices(self) -> None:
        capabilities = self._jobs.engines.capabilities
        first = offer.offer(capabilities, engine_choice.AUTOMATIC, None)
        self._engine = gr.Dropdown(
            engine_choice.engine_choices(capabilities),
            value=engine_choice.AUTOMATIC,
            label="Engine",
            visible=len(capabilities) > 1,
            allow_custom_value=True,  # what is no engine is refused in our own words
            elem_id="engine",
        )
        self._about = shell.fragment("about-engine", first.about)
        self._task = gr.HTML(
            first.task.value,
            html_template="${choices}",
            choices=first.tasks,
            js_on_load=_TASK_JS,
            apply_default_css=False,
            elem_id="task",
        )
        self._mode = gr.Dropdown(
            first.modes,
            value=first.mode,
            label="Read as",
            visible=bool(first.modes),
            allow_custom_value=True,
            elem_id="mode",
        )
        self._language = gr.Dropdown(
            first.targets,
            value=first.target,
            label="Translate into",
            visible=bool(first.targets),
            allow_custom_value=True,
            elem_id="language",
        )
        self._fields = field_form.fields_form(visible=order_form.engine_for(Task.FIELDS, capabilities) is not None)
        self._range = gr.Textbox(label="Pages", placeholder="All pages, or 1-3, 7", max_lines=1, elem_id="page-range")
        self._fresh = gr.Checkbox(label="Read identical pages again, and charge them", elem_id="read-again")
        self._cost = shell.fragment("cost")
        self._price = gr.Button("Count the pages", elem_classes="not-shown", elem_id="price-files")
        self._run = gr.Button("Read the files", variant="primary", elem_id="run")
        self._files = gr.File(label="Uploads", file_count="multiple", elem_classes="not-shown")
        self._names = gr.Textbox(elem_classes="not-shown", elem_id="file-names", label="File names")
        self._started = gr.Textbox(elem_classes="not-shown", elem_id="started-job", label="Started job")
        self._member = gr.Textbox(elem_classes="not-shown", label="Member")

    def _lay_job(self) -> None:
        self._bar = shell.fragment("job-bar")
        self._progress = shell.fragment("job-progress")
        self._viewer = viewer.page_viewer("page-viewer")

    def _wire(self, page: gr.Blocks) -> None:
        views = [
            self._intake,
            self._head,
            self._job,
            self._notice,
            self._bar,
            self._progress,
            self._viewer,
            self._shown,
            self._timer,
        ]
        started = [self._started, self._notice]
        kept = [self._task, self._fields, self._language]
        choices = [self._files, self._names, self._task, self._fields, self._language, self._range, self._fresh]
        choices += [self._engine, self._mode]
        offered = [self._about, self._task, self._mode, self._language]
        asked = [self._engine, self._task, self._mode, self._language]
        for choice in (self._engine, self._task):
            shell.on(choice.change, messages.told(self._offer), inputs=asked, outputs=offered, queue=False)
        refresh = messages.told(self._refresh)
        shell.on(page.load, refresh, outputs=views)
        known = shell.on(page.load, messages.polled(_member_id), outputs=self._member, queue=False)
        shell.on(known.then, None, inputs=[self._member, *kept], outputs=kept, js=file_list.RECALL_JS)
        for run in (
            shell.on(self._run.click, self._run_files, inputs=choices, outputs=started, js=file_list.RUN_JS),
            shell.on(self._samples.submit, self._run_sample, outputs=started, js=file_list.SAMPLE_JS),
        ):
            attached = shell.on(run.then, None, inputs=self._started, js=file_list.ATTACH_JS)
            shell.on(attached.then, messages.told(self._attach), inputs=self._started, outputs=views)
        shell.on(
            self._price.click,
            self._price_files,
            inputs=choices,
            outputs=self._cost,
            js=file_list.PRICE_JS,
            trigger_mode="always_last",
            queue=False,  # one that is under way when the connection breaks would keep the queue's stream for itself
        )
        for changed in (self._task, self._fields, self._language, self._engine, self._mode, self._fresh):
            shell.on(changed.change, None, js=file_list.REPRICE_JS)  # what was read before is free in the same way only
        shell.on(self._drop.submit, refresh, outputs=views)
        shell.on(page.load, messages.polled(self._templates), outputs=self._fields)
        shell.on(self._fields.submit, self._act_on_template, outputs=self._fields)
        for component in (self._bar, self._viewer):
            shell.on(component.submit, messages.told(self._act), outputs=views)
        shell.on(self._timer.tick, messages.polled(self._tick), inputs=self._shown, outputs=views, queue=False)

    # One parameter for each component of the form: Gradio calls it by position.
    def _run_files(  # noqa: PLR0913, PLR0917
        self,
        paths: list[str] | None,
        names: str,
        task: str,
        fields: str,
        language: str | None,
        pages: str,
        is_fresh: bool,
        engine: str | None,
        mode: str | None,
        request: gr.Request,
    ) -> dict[Any, Any]:
        try:
            rest = self._rest(request, pages=pages, is_fresh=is_fresh, engine=engine, mode=mode)
            order = order_form.order(task, fields, language or "", **rest)
            uploads = order_form.uploads(paths or [], names)
            job = submission.submit(self._jobs, identity.principal_of(request), uploads, order)
        except Exception as error:  # noqa: BLE001  messages.inline is the translator
            return self._not_started(error)
        return {self._started: job.id, self._notice: ""}

    def _rest(
        self, request: gr.Request, *, pages: str, is_fresh: bool, engine: str | None, mode: str | None
    ) -> dict[str, Any]:
        """What an order takes from the form beside the task, its fields and its language."""
        return {
            "page_numbers": page_range.parse(pages, max_pages=self._jobs.settings.intake.max_document_pages),
            "is_fresh": is_fresh,
            "capabilities": self._jobs.engines.capabilities,
            "find_template": partial(templates.get_template, self._jobs, identity.principal_of(request).tenant_id),
            "engine_name": engine or engine_choice.AUTOMATIC,
            "mode": mode or "",
        }

    def _price_files(  # noqa: PLR0913, PLR0917  as `_run_files`
        self,
        paths: list[str] | None,
        names: str,
        task: str,
        fields: str,
        language: str | None,
        pages: str,
        is_fresh: bool,
        engine: str | None,
        mode: str | None,
        request: gr.Request,
    ) -> Markup:
        """What the chosen files would cost; nothing where there is none."""
        if not paths:
            return Markup("")
        try:
            rest = self._rest(request, pages=pages, is_fresh=is_fresh, engine=engine, mode=mode)
            order = order_form.priced_order(task, fields, language or "", **rest)
            uploads = order_form.uploads(paths, names)
            return price_view.price(price(self._jobs, identity.principal_of(request), uploads, order))
        except PortalError as error:
            return price_view.unpriced(error)
        except Exception as error:  # noqa: BLE001  messages.inline is the translator
            return messages.inline(error)

    def _offer(self, engine: str | None, task: str, mode: str | None, language: str | None) -> dict[Any, Any]:
        now = offer.offer(
            self._jobs.engines.capabilities,
            engine or engine_choice.AUTOMATIC,
            order_form.task_named(task),
            mode=mode or "",
            language=language or "",
        )
        return {
            self._about: now.about,
            self._task: gr.HTML(now.task.value, choices=now.tasks),
            self._mode: gr.Dropdown(now.modes, value=now.mode, visible=bool(now.modes)),
            self._language: gr.Dropdown(now.targets, value=now.target, visible=bool(now.targets)),
        }

    def _run_sample(self, event: gr.EventData, request: gr.Request) -> dict[Any, Any]:
        try:
            sample = samples.named(str(event._data.get("target")))
            principal = identity.principal_of(request)
            look_before_drawing(self._jobs, principal.tenant_id)
            with tempfile.TemporaryDirectory(prefix="portal-sample-") as folder:
                upload = Upload(file_name=sample.file_name, path=Path(folder, sample.file_name))
                sample.draw(upload.path)
                job = submission.submit(self._jobs, principal, [upload], Order(is_sample=True))
        except Exception as error:  # noqa: BLE001  messages.inline is the translator
            return self._not_started(error)
        return {self._started: job.id, self._notice: ""}

    def _templates(self, request: gr.Request) -> gr.HTML:
        own = templates.list_templates(self._jobs, identity.principal_of(request).tenant_id)
        return gr.HTML(described=field_form.described(own))

    def _act_on_template(self, event: gr.EventData, request: gr.Request) -> gr.HTML:
        """Saves or deletes a template; what came of it is told in the form, which keeps what was typed."""
        principal = identity.principal_of(request)
        try:
            done = field_form.act(self._jobs, principal, event._data)
        except Exception as error:  # noqa: BLE001  messages.plain is the translator
            done = field_form.Done(messages.plain(error))
        own = templates.list_templates(self._jobs, principal.tenant_id)
        return gr.HTML(described=field_form.described(own, done))

    def _not_started(self, error: Exception) -> dict[Any, Any]:
        return {self._started: "", self._notice: messages.inline(error)}

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
            self._head: _INTAKE_HEAD,
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


def _member_id(request: gr.Request) -> str:
    return identity.principal_of(request).member_id or ""
