"""The History as HTML: its search, the bar for what is selected, and the groups of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from markupsafe import Markup

from portal.jobs.deletion import Deletion
from portal.jobs.history import Group
from portal.jobs.queries import JobView
from portal.results.export import ExportFormat
from portal.ui import job_view, markup, words

TITLES = {Group.ATTENTION: "Needs attention", Group.RUNNING: "Running", Group.DONE: "Done"}
_HINTS = {
    Group.ATTENTION: "Failed, and not looked at since. Opening or retrying one takes it from here.",
    Group.RUNNING: "You can close this page: the work goes on.",
    Group.DONE: "",
}
_FORMATS = {ExportFormat.TXT.value: "Text", ExportFormat.MARKDOWN.value: "Markdown", ExportFormat.JSON.value: "JSON"}
_TABLE = ("fields", "Fields (CSV)")
_REASONS = {
    "asked": "deleted by {actor}",
    "retention": "deleted at the end of its retention",
    "admin": "deleted by the portal's admin",
}
_BULK = (
    ("retry", "Retry failed pages", ""),
    ("cancel", "Cancel", ""),
    ("delete", "Delete", "danger-quiet"),
)


@dataclass(frozen=True)
class Asked:
    """What the address asks for: one group or all, the words searched for, and the last job seen of the group."""

    group: Group | None = None
    text: str = ""
    before: str = ""


@dataclass(frozen=True)
class Shown:
    """A group's jobs, newest first, and whether there are more."""

    group: Group
    jobs: Sequence[JobView]
    has_older: bool


def address(asked: Asked) -> str:
    """The page's address for it."""
    named = {"q": asked.text, "group": asked.group.value if asked.group else "", "before": asked.before}
    query = urlencode({name: value for name, value in named.items() if value})
    return f"/history?{query}" if query else "/history"


def head(text: str) -> Markup:
    """The title and the search field; static/history.js searches as people type."""
    return Markup(
        '<div class="lead history-lead"><h1>History</h1><form class="search" role="search" action="/history">'
        '<label for="history-search" class="for-readers">Search file names, text on the pages, or a job id</label>'
        '<input id="history-search" type="search" name="q" value="{}" maxlength="200" autocomplete="off"'
        ' placeholder="File name, text on a page, or job id">'
        '<button class="button" id="search-jobs" data-action="search" data-address="/history">Search</button>'
        "</form></div>"
    ).format(text)


def bar() -> Markup:
    """What can be done with the selected jobs; static/history.js shows it while there are any, and arms its buttons."""
    actions = markup.joined(
        Markup(
            '<button type="button" class="button {2}" id="bulk-{0}" data-bulk="{0}" data-words="{1}">{1}</button>'
        ).format(action, label, style)
        for action, label, style in _BULK
    )
    formats = markup.joined(
        Markup('<option value="{}">{}</option>').format(name, label) for name, label in (*_FORMATS.items(), _TABLE)
    )
    return Markup(
        '<section class="bulk" aria-label="Selected jobs" hidden><b id="bulk-count" role="status"></b>'
        '<div class="bulk-actions">{}<span class="bulk-export"><label for="bulk-format" class="for-readers">'
        'Format of the export</label><select id="bulk-format">{}</select>'
        '<a class="button" id="bulk-export" download>Export</a></span></div>'
        '<small id="bulk-left-out" role="status" hidden></small>'
        '<button type="button" class="quiet" id="bulk-clear">Clear selection</button></section>'
    ).format(actions, formats)


def listing(groups: Sequence[Shown], asked: Asked, now: datetime) -> Markup:
    """The groups that have jobs; links to a group's older ones; or why there is nothing."""
    if not any(shown.jobs for shown in groups):
        return Markup("{}{}").format(_nothing(asked), _paging(asked))
    drawn = markup.joined(_group(shown, asked, now) for shown in groups if shown.jobs)
    return Markup("{}{}").format(drawn, _paging(asked))


def refused(reason: Markup, asked: Asked, *, offers_groups: bool) -> Markup:
    """What stands in the list's place when it cannot be had, with the ways on: a search in one group, all jobs."""
    if asked == Asked():
        return reason
    narrower = [Asked(group, asked.text) for group in Group] if offers_groups and not asked.group else []
    links = [(address(each), f"Search under {TITLES[each.group]}") for each in narrower if each.group]
    links.append(("/history", "Show all jobs"))
    return Markup('{}<p class="paging">{}</p>').format(
        reason, markup.joined(Markup('<a class="button" href="{}">{}</a> ').format(*link) for link in links)
    )


def deletions(found: Sequence[Deletion], now: datetime) -> Markup:
    """What was deleted last, folded up below the list; nothing when nothing was."""
    if not found:
        return Markup("")
    rows = markup.joined(
        Markup("<li><code>{}</code> {} {}: {}</li>").format(
            each.target, _REASONS[each.reason].format(actor=each.actor), markup.moment(each.at, now), _gone(each)
        )
        for each in found
    )
    return Markup(
        '<details class="deletions"><summary>Deleted ({})</summary><p>What went is gone for good; only this record '
        "stays.</p><ul>{}</ul></details>"
    ).format(len(found), rows)


def _gone(deletion: Deletion) -> str:
    documents, pages = deletion.gone.get("documents", 0), deletion.gone.get("pages", 0)
    return f"{words.counted(documents, 'file')}, {words.counted(pages, 'page')} with texts and images"


def _nothing(asked: Asked) -> Markup:
    if asked.text.strip():
        return markup.empty(
            "Nothing found", f"No file name, page text or job id has “{asked.text.strip()}” in it. Try fewer words."
        )
    if asked.group is not None:
        return markup.empty("Nothing here", f"No job is under “{TITLES[asked.group]}” now.")
    return Markup('{}<p class="paging"><a class="button primary" href="/">Read a scan</a></p>').format(
        markup.empty(
            "Nothing read yet", "Jobs appear here as soon as you submit a scan, from this browser or with an API key."
        )
    )


def _paging(asked: Asked) -> Markup:
    """The ways back from a group's own page, and from older jobs."""
    links = []
    if asked.before:
        links.append(Markup('<a class="button" href="{}">Newest</a>').format(address(Asked(asked.group, asked.text))))
    if asked.group is not None:
        links.append(Markup('<a class="button" href="{}">All groups</a>').format(address(Asked(None, asked.text))))
    return Markup('<p class="paging">{}</p>').format(markup.joined(links)) if links else Markup("")


def _group(shown: Shown, asked: Asked, now: datetime) -> Markup:
    count = f"{len(shown.jobs)}+" if shown.has_older else str(len(shown.jobs))
    if asked.before:
        count = "older"
    older = Markup("")
    if shown.has_older:
        target = address(Asked(shown.group, asked.text, shown.jobs[-1].cursor))
        older = Markup('<p class="paging"><a class="button" href="{}">Older</a></p>').format(target)
    return Markup(
        '<section class="group" data-group="{0}"><div class="group-head"><label class="tick">'
        '<input type="checkbox" class="select-all" aria-label="Select all under {1}"></label>'
        '<h2>{1} <small>{2}</small></h2><p>{3}</p></div><ul class="entries">{4}</ul>{5}</section>'
    ).format(
        shown.group.value,
        TITLES[shown.group],
        count,
        _HINTS[shown.group],
        markup.joined(_row(job, now) for job in shown.jobs),
        older,
    )


def _row(job: JobView, now: datetime) -> Markup:
    name = job_view.heading(job)
    return Markup(
        '<li class="entry job-entry" data-job="{0}" data-can="{1}" data-name="{2}" data-task="{7}">'
        '<label class="tick"><input type="checkbox" class="select-job" aria-label="Select {2}"></label>'
        '<div class="entry-main"><a class="entry-title" href="/?job={0}">{2}</a>'
        '<p class="entry-facts">{3}</p></div><div class="entry-state">{4}<small>{5}</small></div>'
        '<div class="entry-actions">{6}</div></li>'
    ).format(
        job.id,
        " ".join(_possible(job)),
        name,
        _facts(job, now),
        markup.badge(job.state, words.JOB_STATES[job.state]),
        _counts(job),
        _action(job, name),
        job.prompt.task.value,
    )


def _possible(job: JobView) -> list[str]:
    """What can be done with the job, by the names of the actions."""
    if not job.is_final:
        return ["cancel"]
    possible = ["delete"]
    if job.pages_done:
        possible.append("export")
    if job.pages_failed:
        possible.append("retry")
    return possible


def _facts(job: JobView, now: datetime) -> Markup:
    via = "API key" if job.via == "key" else "browser"
    task, _ = words.TASKS[job.prompt.task]
    kept = Markup("") if job.expires_at is None else Markup(" · kept until {}").format(f"{job.expires_at:%Y-%m-%d}")
    return Markup("{} · {} · {} · {}{}").format(
        markup.moment(job.created_at, now), task, job.submitted_by or "deleted member", via, kept
    )


def _counts(job: JobView) -> str:
    parts = [f"{job.pages_done:,} of {words.counted(job.page_count, 'page')}"]
    if job.pages_failed:
        parts.append(f"{job.pages_failed:,} failed")
    if job.is_final or job.pages_charged:
        parts.append(f"{job.pages_charged:,} charged")
    return ", ".join(parts)


def _action(job: JobView, name: str) -> Markup:
    """The one thing that a row offers by itself; the rest is in the bar of what is selected."""
    if not job.is_final:
        return _button("cancel", "Cancel", job, name)
    if job.pages_failed:
        return _button("retry", "Retry", job, name)
    return Markup(
        '<button type="button" class="button" data-action="delete" data-target="{0}" aria-label="Delete {1}"'
        ' data-confirm="Delete {1}?" data-detail="The files, page images and texts of this job go for good."'
        ' data-yes="Delete">Delete</button>'
    ).format(job.id, name)


def _button(action: str, label: str, job: JobView, name: str) -> Markup:
    return Markup(
        '<button type="button" class="button" data-action="{0}" data-target="{1}" aria-label="{2} {3}">{2}</button>'
    ).format(action, job.id, label, name)
