"""The page viewer: one component that shows a job's pages, each with its text beside it.

Python sends two small pieces of JSON: what the job is (`described`, once) and how its pages stand (the value, when
that changes). The viewer (static/viewer/) fetches each page from /files when it is looked at and draws it as text
and shapes; nothing is ever inserted as HTML, and no template sees a value.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import gradio as gr

from portal.domain import PageState, Task
from portal.jobs.queries import JobView, PageView
from portal.ui import run_code, words

# A name in quotes in here is an event of the component: 'submit' sends what is to be done with a page. The module asks
# for the value's changes itself.
_MOUNT_JS = f"""
import(portal.files + 'viewer/viewer.js').then((viewer) =>
  viewer.mount(element, props, watch, (event) => trigger('submit', event))
).catch(() => portal.missing(element, {json.dumps(words.VIEWER_MISSING)}, {json.dumps(words.RELOAD)}));
"""
_LETTERS = {
    PageState.QUEUED: "q",
    PageState.RUNNING: "r",
    PageState.SUCCEEDED: "s",
    PageState.FAILED: "f",
    PageState.CANCELLED: "c",
}
_BLANK = "b"


def page_viewer(elem_id: str) -> gr.HTML:
    """The component, empty until it is updated by `shown` (and later by the `standing` alone).

    Not a subclass of gr.HTML: for one, Gradio 6.31 writes a .pyi beside the module whenever it is imported.
    """
    return gr.HTML("", html_template="", js_on_load=_MOUNT_JS, apply_default_css=False, elem_id=elem_id, described="")


def shown(job: JobView, base_url: str) -> gr.HTML:
    """The update that shows a job."""
    return gr.HTML(standing(job), described=described(job, base_url))


def described(job: JobView, base_url: str) -> str:
    """What never changes of a job: its files with the numbers of their pages, code for this run, and our words."""
    documents = [
        {"name": pages[0].file_name, "numbers": [page.number for page in pages]}
        for pages in (list(group) for _, group in itertools.groupby(job.pages, key=lambda page: page.document_id))
    ]
    return json.dumps(
        {
            "id": job.id,
            "documents": documents,
            "code": run_code.for_job(job, base_url),
            "states": {_LETTERS[state]: text for state, text in words.PAGE_STATES.items()} | {_BLANK: "no text"},
            "outcomes": {_LETTERS[state]: text for state, text in words.PAGE_OUTCOMES.items()} | {_BLANK: words.BLANK},
            "retry": words.RETRY_PAGE,
            "has_fields": job.task == Task.FIELDS,
        },
        ensure_ascii=False,
    )


def standing(job: JobView, *, told: dict[str, Any] | None = None) -> str:
    """How the pages stand, a letter each, and how many lines of each are to be checked (null: no score).

    A few bytes a page, so that a long job costs little at each tick. `told` is what came of a correction.
    """
    letters = "".join(_letter(page) for page in job.pages)
    checks = [page.lines_to_check for page in job.pages]
    news = {} if told is None else {"told": told}
    return json.dumps({"id": job.id, "pages": letters, "checks": checks, **news}, separators=(",", ":"))


def _letter(page: PageView) -> str:
    return _BLANK if page.is_blank else _LETTERS[page.state]
