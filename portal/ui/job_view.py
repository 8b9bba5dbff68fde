"""A job as HTML: its bar, progress, page strip, and the selected page's image, text, Markdown and JSON.

Everything a scan or an upload says goes through Markup, which escapes it.
"""

from __future__ import annotations

import itertools
import json

from markupsafe import Markup

from portal.domain import PageState, PageText
from portal.jobs.queries import JobView, PageView
from portal.results.render import markdown_to_html
from portal.results.serial import page_text_to_json
from portal.ui import markup, retry, words
from portal.ui.language import language_of

DOWNLOADS = (("txt", "Text"), ("markdown", "Markdown"), ("json", "JSON"))


def heading(job: JobView) -> str:
    """What to call the job: its file, or how many files."""
    first = job.documents[0].file_name if job.documents else "Deleted file"
    others = len(job.documents) - 1
    return first if others < 1 else f"{first} and {words.counted(others, 'more file')}"


def page_address(job_id: str, position: int) -> str:
    """The address of the workspace that shows this page. (`page` is taken: Gradio reads it as a route.)"""
    return f"/?job={job_id}&at={position}"


def bar(job: JobView) -> Markup:
    """The job's title, facts and what can be done with it."""
    task, _ = words.TASKS[job.prompt.task]
    facts = f"{task} · {words.counted(job.page_count, 'page')} · {words.byte_count(_bytes(job))}"
    return Markup(
        '<div class="job-bar"><div class="job-title"><h1>{}</h1><p>{} <span>{}</span></p></div>'
        '<div class="job-actions">{}<a class="button" id="new-scan" href="/">New scan</a></div></div>'
    ).format(heading(job), markup.badge(job.state, words.JOB_STATES[job.state]), facts, _actions(job))


def progress(job: JobView) -> Markup:
    """The sentence on progress and a bar while there is work; static/ui.js reads out `data-announce` as it changes."""
    finished = sum(page.state.is_final for page in job.pages)
    meter = Markup("")
    if not job.is_final:
        meter = Markup('<progress max="{}" value="{}" aria-label="Pages finished"></progress>').format(
            max(job.page_count, 1), finished
        )
    return Markup('<div class="job-progress" data-state="{}" data-announce="{}"><p>{}</p>{}</div>').format(
        job.state, words.announcement(job), words.progress(job), meter
    )


def strip(job: JobView, selected: int) -> Markup:
    """Links to the pages with their state, under their file's name where there are several files."""
    groups = [
        _strip_group(job, list(pages), selected)
        for _, pages in itertools.groupby(job.pages, key=lambda page: page.document_id)
    ]
    return Markup('<nav class="strip" aria-label="Pages of this job">{}</nav>').format(markup.joined(groups))


def image(job: JobView, page: PageView, *, exists: bool) -> Markup:
    """The page's image, or a word on why there is none yet."""
    caption = Markup("<figcaption>{}, page {}</figcaption>").format(page.file_name, page.number)
    if not exists:
        waiting = "No image of this page." if page.state.is_final else "The image appears when the page is read."
        return Markup('<figure class="page-image"><div class="no-image">{}</div>{}</figure>').format(waiting, caption)
    return Markup(
        '<figure class="page-image"><a href="{0}" target="_blank" rel="noopener">'
        '<img src="{0}" alt="{1}"></a>{2}</figure>'
    ).format(
        f"/files/jobs/{job.id}/pages/{page.position}.jpg", f"Scan of page {page.number} of {page.file_name}", caption
    )


def text(page: PageView, found: PageText | None) -> Markup:
    """The page's text as safe HTML, or why there is none."""
    if found is None or found.is_blank:
        return _without_text(page)
    return Markup('{}<article class="page-text" id="page-text" tabindex="0" lang="{}">{}</article>').format(
        _tools(page, found, "page-text"),
        language_of(found.text) or "",
        markup.sanitized(markdown_to_html(found.markdown)),
    )


def markdown(page: PageView, found: PageText | None) -> Markup:
    """The Markdown itself, as written."""
    if found is None or found.is_blank:
        return _without_text(page)
    return _source("page-markdown", found.markdown)


def as_json(page: PageView, found: PageText | None) -> Markup:
    """The page's lines with boxes and scores as JSON."""
    if found is None:
        return _without_text(page)
    return _source("page-json", json.dumps(page_text_to_json(found), ensure_ascii=False, indent=2))


def _actions(job: JobView) -> Markup:
    if not job.is_final:
        return Markup('<button type="button" class="button" id="cancel-job" data-action="cancel">Cancel</button>')
    if not job.pages_done:
        return retry.job_button(job)
    links = markup.joined(
        Markup('<a class="button" id="download-{0}" href="/files/jobs/{1}/result?format={0}" download>{2}</a>').format(
            name, job.id, label
        )
        for name, label in DOWNLOADS
    )
    return Markup('<span class="downloads" role="group" aria-label="Download">{}</span>{}').format(
        links, retry.job_button(job)
    )


def _strip_group(job: JobView, pages: list[PageView], selected: int) -> Markup:
    several = len(job.documents) > 1
    title = Markup('<h2 title="{0}">{0}</h2>').format(pages[0].file_name) if several else Markup("")
    return Markup("{}<ol>{}</ol>").format(title, markup.joined(_strip_page(job, page, selected) for page in pages))


def _strip_page(job: JobView, page: PageView, selected: int) -> Markup:
    current = Markup(' aria-current="page"') if page.position == selected else Markup("")
    address = page_address(job.id, page.position)
    state = "blank" if page.is_blank else page.state.value
    return Markup(
        '<li><a href="{0}" data-action="page" data-address="{0}" data-state="{1}"{2}>'
        '<i aria-hidden="true"></i><span>Page {3}</span><small>{4}</small></a></li>'
    ).format(address, state, current, page.number, "no text" if page.is_blank else words.PAGE_STATES[page.state])


def _tools(page: PageView, found: PageText, target_id: str) -> Markup:
    """The line above a text: what to know about the reading, and copy."""
    remarks = []
    if found.truncated:
        remarks.append("Stopped where the output began to repeat." if found.truncated == "repetition" else "Cut short.")
    if found.rotation_degrees:
        remarks.append(f"Turned upright by {found.rotation_degrees}°.")
    return Markup('<div class="tools"><span>{}</span>{}</div>').format(
        " ".join(remarks), markup.copy_button(target_id, "Copy text")
    )


def _source(elem_id: str, source: str) -> Markup:
    return Markup('<div class="tools"><span></span>{}</div><pre class="source" id="{}" tabindex="0">{}</pre>').format(
        markup.copy_button(elem_id, "Copy"), elem_id, source
    )


def _without_text(page: PageView) -> Markup:
    tones = {PageState.FAILED: "error", PageState.SUCCEEDED: "blank", PageState.CANCELLED: "blank"}
    button = retry.page_button(page) if page.state is PageState.FAILED else Markup("")
    return Markup('<div class="no-text" data-tone="{}"><p>{}</p>{}</div>').format(
        tones.get(page.state, "waiting"), words.page_outcome(page), button
    )


def _bytes(job: JobView) -> int:
    return sum(document.byte_size for document in job.documents)
