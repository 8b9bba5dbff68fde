"""A job as HTML: its bar and progress. Its pages are drawn by the viewer (portal/ui/viewer.py).

Everything a scan or an upload says goes through Markup, which escapes it.
"""

from __future__ import annotations

from markupsafe import Markup

from portal.domain import Task
from portal.jobs.queries import JobView
from portal.ui import markup, retry, usage_words, words

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
    facts = (
        f"{words.task(job)} · {job.engine} · {words.counted(job.page_count, 'page')} · {words.byte_count(_bytes(job))}"
    )
    return Markup(
        '<div class="job-bar"><div class="job-title"><h1>{}</h1><p>{} <span>{}</span></p></div>'
        '<div class="job-actions">{}<a class="button" id="new-scan" href="/">New scan</a></div></div>'
    ).format(heading(job), markup.badge(job.state, words.JOB_STATES[job.state]), facts, _actions(job))


def progress(job: JobView) -> Markup:
    """The sentence on progress and a bar while there is work; static/ui.js reads out `data-announce` as it changes."""
    meter = Markup("")
    if not job.is_final:
        meter = Markup('<progress max="{}" value="{}" aria-label="Pages finished"></progress>').format(
            max(job.page_count, 1), job.counts.finished
        )
    return Markup('<div class="job-progress" data-state="{}" data-announce="{}"><p>{}</p>{}</div>').format(
        job.state, words.announcement(job), words.progress(job), meter
    )


def receipt(job: JobView) -> Markup:
    """The receipt: a line while the job goes on, with its reasons once it is over. Samples have none."""
    if job.is_sample or not job.receipt.reserved:
        return Markup("")
    told = usage_words.receipt(job.receipt)
    if not job.is_final:  # redrawn as it goes on: details would close under the reader
        return Markup('<p class="receipt">Receipt: {}</p>').format(told)
    lines = markup.joined(
        Markup("<li>{} {}</li>").format(usage_words.number(line.pages or line.free_pages), line.words)
        for line in job.receipt.lines
    )
    return Markup('<details class="receipt"><summary>Receipt: {}</summary><ul>{}</ul></details>').format(told, lines)


def _actions(job: JobView) -> Markup:
    if not job.is_final:
        return Markup('<button type="button" class="button" id="cancel-job" data-action="cancel">Cancel</button>')
    if not job.pages_done:
        return retry.job_button(job)
    links = markup.joined(
        Markup('<a class="button" id="download-{0}" href="/files/jobs/{1}/result?format={0}" download>{2}</a>').format(
            name, job.id, label
        )
        for name, label in (*DOWNLOADS, *((("csv", "CSV"),) if job.prompt.task is Task.FIELDS else ()))
    )
    return Markup('<span class="downloads" role="group" aria-label="Download">{}</span>{}').format(
        links, retry.job_button(job)
    )


def _bytes(job: JobView) -> int:
    return sum(document.byte_size for document in job.documents)
