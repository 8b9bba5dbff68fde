"""The form of the Workspace: files, what is to be read and how, its price, and the samples; each starts a job.

What a person does with a job is in portal/ui/workspace.py.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from portal.documents.intake import Upload
from portal.domain import Task
from portal.errors import PortalError
from portal.jobs import submission, templates
from portal.jobs.free_samples import look_before_drawing
from portal.jobs.price import price
from portal.jobs.submission import Order
from portal.services import Services
from portal.ui import (
    engine_choice,
    field_form,
    file_list,
    identity,
    messages,
    offer,
    order_form,
    page_range,
    price_view,
    samples,
    shell,
)
from portal.ui.offer import Offer

_TASK_JS = """
element.addEventListener('change', (event) => { props.value = event.target.value; });
"""

HEAD = Markup(
    '<div class="lead"><h1>Read a scan</h1><p>Scans, photos and PDFs. The text opens beside each page '
    "as soon as it is read.</p></div>"
)


class IntakeForm:
    """Lays the form out and answers its events. `started` has the id of the job that was begun, '' for none."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._jobs = services.jobs

    def lay(self) -> None:
        """Places the components; called inside the column that is shown while no job is."""
        self.head = shell.fragment("intake-head", HEAD)
        self.notice = shell.fragment("notice")
        with gr.Row(elem_id="intake-card"):
            with gr.Column(scale=3, min_width=300):
                zone = file_list.drop_zone(self._services.settings.intake)
                self.drop = shell.fragment("drop", zone, js_on_load=file_list.DROP_JS)
            with gr.Column(scale=2, min_width=280, elem_id="choices"):
                self._lay_choices()
        self._samples = shell.fragment("samples", file_list.gallery())

    def _lay_choices(self) -> None:
        capabilities = self._jobs.engines.capabilities
        engines = engine_choice.engine_choices(capabilities)
        first = offer.offer(capabilities, engine_choice.AUTOMATIC, None)
        self._engine = _choice("Engine", engines, engine_choice.AUTOMATIC, visible=len(capabilities) > 1)
        self._lay_offered(first)
        self._fields = field_form.fields_form(visible=order_form.engine_for(Task.FIELDS, capabilities) is not None)
        self._range = gr.Textbox(label="Pages", placeholder="All pages, or 1-3, 7", max_lines=1, elem_id="page-range")
        self._fresh = gr.Checkbox(label="Read identical pages again, and charge them", elem_id="read-again")
        self._cost = shell.fragment("cost")
        self._price = gr.Button("Count the pages", elem_classes="not-shown", elem_id="price-files")
        self._run = gr.Button("Read the files", variant="primary", elem_id="run")
        self._lay_carriers()

    def _lay_offered(self, first: Offer) -> None:
        """What the chosen engine can do: told, and to be chosen from."""
        self._about = shell.fragment("about-engine", first.about)
        self._task = gr.HTML(
            first.task.value,
            html_template="${choices}",
            choices=first.tasks,
            js_on_load=_TASK_JS,
            apply_default_css=False,
            elem_id="task",
        )
        self._mode = _choice("Read as", first.modes, first.mode, elem_id="mode")
        self._language = _choice("Translate into", first.targets, first.target, elem_id="language")

    def _lay_carriers(self) -> None:
        """Never shown: they carry what scripts know."""
        self._files = gr.File(label="Uploads", file_count="multiple", elem_classes="not-shown")
        self._names = gr.Textbox(elem_classes="not-shown", elem_id="file-names", label="File names")
        self.started = gr.Textbox(elem_classes="not-shown", elem_id="started-job", label="Started job")
        self._member = gr.Textbox(elem_classes="not-shown", label="Member")

    def wire(self, page: gr.Blocks) -> tuple[Any, Any]:
        """Wires the form's events; gives the two that have begun a job, or told why not, when they are over."""
        self._wire_offer()
        self._wire_memory(page)
        self._wire_price()
        shell.on(page.load, messages.polled(self._templates), outputs=self._fields)
        shell.on(self._fields.submit, self._act_on_template, outputs=self._fields)
        outputs = [self.started, self.notice]
        return (
            shell.on(self._run.click, self._run_files, inputs=self._chosen(), outputs=outputs, js=file_list.RUN_JS),
            shell.on(self._samples.submit, self._run_sample, outputs=outputs, js=file_list.SAMPLE_JS),
        )

    def _chosen(self) -> list[Any]:
        """The components in the order of the parameters of `_run_files` and `_price_files`."""
        own = [self._files, self._names, self._task, self._fields, self._language, self._range, self._fresh]
        return [*own, self._engine, self._mode]

    def _wire_offer(self) -> None:
        offered = [self._about, self._task, self._mode, self._language]
        asked = [self._engine, self._task, self._mode, self._language]
        for choice in (self._engine, self._task):
            shell.on(choice.change, messages.told(self._offer), inputs=asked, outputs=offered, queue=False)

    def _wire_memory(self, page: gr.Blocks) -> None:
        kept = [self._task, self._fields, self._language]
        known = shell.on(page.load, messages.polled(_member_id), outputs=self._member, queue=False)
        shell.on(known.then, None, inputs=[self._member, *kept], outputs=kept, js=file_list.RECALL_JS)

    def _wire_price(self) -> None:
        shell.on(
            self._price.click,
            self._price_files,
            inputs=self._chosen(),
            outputs=self._cost,
            js=file_list.PRICE_JS,
            trigger_mode="always_last",
            queue=False,  # one that is under way when the connection breaks would keep the queue's stream for itself
        )
        for changed in (self._task, self._language, self._engine, self._mode, self._fresh):
            shell.on(changed.change, None, js=file_list.REPRICE_JS)  # what was read before is free in the same way only
        shell.on(self._fields.change, None, js=file_list.REPRICE_WHEN_LEFT_JS)

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
        return {self.started: job.id, self.notice: ""}

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
        return {self.started: job.id, self.notice: ""}

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
        return {self.started: "", self.notice: messages.inline(error)}


def _choice(
    label: str, choices: Any, value: str | None, *, elem_id: str = "", visible: bool | None = None
) -> gr.Dropdown:
    """A list to choose from, hidden where it has nothing; what is none of them is refused in our own words."""
    return gr.Dropdown(
        choices,
        value=value,
        label=label,
        visible=bool(choices) if visible is None else visible,
        allow_custom_value=True,
        elem_id=elem_id or label.lower(),
    )


def _member_id(request: gr.Request) -> str:
    return identity.principal_of(request).member_id or ""
