"""The Usage page as HTML: limits, plots, shares, receipts, the request for more and the time zone.

Names of keys, files and members are other people's words: Markup escapes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from markupsafe import Markup

from portal.domain import Limit, Standing
from portal.ui import charts, markup, usage_words, words
from portal.ui.charts import Column
from portal.usage.more import ASKABLE, MAX_REASON, MAX_WANTED, AskedForMore
from portal.usage.receipt_list import ListedReceipt, ReceiptSort
from portal.usage.reports import SERIES, DayUse, Refused, Share, UsageReport
from portal.usage.standing import TenantStanding
from portal.usage.zones import time_zones

RANGES = (7, 30, 90)
_STACK = ("charged", "blank", "failed", "truncated", "free")
_BINDS, _WARN, _FULL = 0.5, 0.8, 1.0
_MOST_SHARES = 8
_SORTS = (
    (ReceiptSort.TIME, "When"),
    (ReceiptSort.RESERVED, "Reserved"),
    (ReceiptSort.CHARGED, "Charged"),
    (ReceiptSort.RETURNED, "Returned"),
)


@dataclass(frozen=True)
class Asked:
    """What the address asks for: the last so many days, the order of the receipts, and the last one seen."""

    days: int = 30
    sort: ReceiptSort = ReceiptSort.TIME
    is_ascending: bool = False
    after: str = ""


def address(asked: Asked) -> str:
    """The page's address for it."""
    named = {
        "days": str(asked.days) if asked.days != Asked.days else "",
        "sort": asked.sort.value if asked.sort is not Asked.sort else "",
        "order": "up" if asked.is_ascending else "",
        "after": asked.after,
    }
    query = urlencode({name: value for name, value in named.items() if value})
    return f"/usage?{query}" if query else "/usage"


def head(sentence: str) -> Markup:
    """The title and the sentence; read out when it changes."""
    return Markup('<div class="lead"><h1>Usage</h1><p class="usage-sentence">{}</p></div>').format(sentence)


def limits(standing: TenantStanding) -> Markup:
    """A bar for each counted limit that applies; the nearest is marked, in words too, once half of it is used."""
    nearest = standing.nearest if standing.nearest and standing.nearest.used_share >= _BINDS else None
    shown = [one for one in standing.standings if one.allowed is not None]
    if not shown:
        return Markup('<section class="card"><h2>Limits</h2><p>No limit applies to your tenant.</p></section>')
    bars = markup.joined(
        _limit(one, standing, is_nearest=nearest is not None and one.limit is nearest.limit) for one in shown
    )
    return Markup(
        '<section class="card" aria-labelledby="limits-title"><h2 id="limits-title">Limits <small>plan {}</small></h2>'
        '<ul class="limits">{}</ul></section>'
    ).format(standing.terms.plan, bars)


def plots(report: UsageReport, standing: TenantStanding, asked: Asked) -> Markup:
    """Pages by day with the day's limit, refused requests, and the shares of tasks, keys and members."""
    ranges = markup.joined(_range(days, asked) for days in RANGES)
    return Markup(
        '{}<section class="card" aria-labelledby="days-title"><div class="card-head"><h2 id="days-title">Pages by day'
        ' <small>{}</small></h2><nav class="ranges" aria-label="Days shown">{}</nav></div>{}{}{}</section>'
        '<div class="shares-row">{}{}{}</div>'
    ).format(
        charts.PATTERNS,
        f"{usage_words.sums(report.total)}; days in {standing.terms.time_zone}",
        ranges,
        _by_day(report, standing.terms.limits.pages_per_day),
        _refused(report),
        _as_table(report),
        _shares("By task", report.tasks, unnamed="no task"),
        _shares("By key", report.keys, unnamed="in the browser"),
        _shares("By member", report.members, unnamed="no member"),
    )


def receipts(
    found: Sequence[ListedReceipt], asked: Asked, names: Mapping[str, str], zone: str, *, has_more: bool
) -> Markup:
    """The table of receipts with links that sort it, and the way on; `names` are the files of the jobs still there."""
    csv = Markup('<a class="button" id="usage-csv" href="/files/usage.csv?days={}" download>CSV</a>').format(asked.days)
    if not found:
        body = markup.empty("No receipts", "Each job, retry and request of these days has one.")
        return _receipts_card(csv, body)
    heads = markup.joined(_sort_head(sort, label, asked) for sort, label in _SORTS[:1])
    numbers = markup.joined(_sort_head(sort, label, asked) for sort, label in _SORTS[1:])
    rows = markup.joined(_receipt(one, names, zone) for one in found)
    table = Markup(
        '<div class="table-frame" tabindex="0" role="region" aria-label="Receipts"><table class="receipts"'
        ' role="table"><thead role="rowgroup">'
        '<tr role="row">{}<th scope="col" role="columnheader">Work</th><th scope="col" role="columnheader">By</th>{}'
        '<th scope="col" role="columnheader">Why</th></tr></thead><tbody role="rowgroup">{}</tbody>'
        "</table></div>{}"
    ).format(heads, numbers, rows, _paging(found, asked, has_more=has_more))
    return _receipts_card(csv, table)


def more(asked: Sequence[AskedForMore], standing: TenantStanding, now: datetime, wanted_limit: str) -> Markup:
    """The form that asks the admin for more, and what was asked and answered."""
    choices = [limit for limit in ASKABLE if standing.terms.limits.value(limit) is not None]
    if not choices:
        return Markup("")
    chosen = next((limit for limit in choices if limit.value == wanted_limit), choices[0])
    options = markup.joined(_option(limit, standing, is_chosen=limit is chosen) for limit in choices)
    return Markup(
        '<section class="card" id="ask" aria-labelledby="ask-title"><h2 id="ask-title">Ask for more</h2>'
        '<form class="ask" data-form="ask"><label>Limit<select name="limit">{}</select></label>'
        '<label>How many you need<input name="wanted" type="number" inputmode="numeric" min="1" max="{}" required>'
        "</label>"
        '<label class="wide">What for<textarea name="reason" rows="2" maxlength="{}" required></textarea></label>'
        '<button class="button primary" id="send-ask">Ask the admin</button></form>{}</section>'
    ).format(options, MAX_WANTED, MAX_REASON, _asked_list(asked, now))


def zone(standing: TenantStanding, *, is_owner: bool) -> Markup:
    """The time zone in which days and months begin; an owner can choose another."""
    name = standing.terms.time_zone
    told = Markup("Days and months begin at midnight in <b>{}</b>.").format(name)
    if not is_owner:
        return Markup(
            '<section class="card zone"><h2>Time zone</h2><p>{} An owner can change it.</p></section>'
        ).format(told)
    options = markup.joined(
        Markup('<option value="{0}"{1}>{0}</option>').format(one, Markup(" selected") if one == name else "")
        for one in dict.fromkeys((name, *time_zones()))
    )
    return Markup(
        '<section class="card zone"><h2>Time zone</h2><p>{}</p><form class="ask" data-form="zone"><label>Time zone'
        '<select name="zone">{}</select></label><button class="button" id="save-zone">Change</button></form></section>'
    ).format(told, options)


def _limit(one: Standing, standing: TenantStanding, *, is_nearest: bool) -> Markup:
    share = one.used_share
    level = "full" if share >= _FULL else "warn" if share >= _WARN else "calm"
    mark = Markup('<span class="binds">binds first</span>') if is_nearest else Markup("")
    return Markup('<li class="limit" data-level="{}"{}><div><b>{}</b>{}</div>{}<p>{}</p></li>').format(
        level,
        Markup(" data-nearest") if is_nearest else "",
        words.LIMITS[one.limit],
        mark,
        charts.bar(share, kind="nearest" if is_nearest else "charged"),
        usage_words.limit_line(one, standing.period.at, standing.terms.time_zone),
    )


def _range(days: int, asked: Asked) -> Markup:
    current = Markup(' aria-current="true"') if days == asked.days else ""
    return Markup('<a href="{}"{}>{} days</a>').format(address(Asked(days)), current, days)


def _by_day(report: UsageReport, limit: int | None) -> Markup:
    if not report.total.read:
        return markup.empty("Nothing read in these days", "Pages appear here as soon as they are read.")
    series = [name for name in _STACK if name == "charged" or getattr(report.total, name)]
    found = [
        Column(usage_words.day_name(day.day), tuple(getattr(day.pages, name) for name in series), _day_words(day))
        for day in report.days
    ]
    told = f"Pages by day: {usage_words.sums(report.total)}. Highest: {max(day.pages.read for day in report.days)}."
    return charts.columns(found, series, title=f"{told} The table below has each day.", limit=limit)


def _refused(report: UsageReport) -> Markup:
    if not report.refused:
        return Markup('<p class="hint">No request was refused in these days.</p>')
    found = [
        Column(
            usage_words.day_name(day.day),
            (day.refused_requests,),
            f"{usage_words.day_name(day.day)}: {day.refused_requests} refused",
        )
        for day in report.days
    ]
    total = sum(row.requests for row in report.refused)
    plot = charts.columns(found, ("refused",), title=f"Refused requests by day: {total} in all.")
    reasons = markup.joined(Markup("<li>{}</li>").format(_refusal_words(row)) for row in report.refused)
    return Markup('<h3>Refused requests</h3>{}<ul class="reasons">{}</ul>').format(plot, reasons)


def _refusal_words(row: Refused) -> str:
    limit = next((words.LIMITS[known] for known in Limit if known.value == row.limit and known in words.LIMITS), "")
    asked = f", {usage_words.pages(row.pages)} asked for" if row.pages else ""
    return f"{limit or row.code}: {words.counted(row.requests, 'request')} refused{asked}"


def _as_table(report: UsageReport) -> Markup:
    names = [name for name in SERIES if getattr(report.total, name)] or ["charged"]
    head = ("Day", *(words.SERIES[name].capitalize() for name in names), "Refused requests")
    rows = [
        (day.day, *(str(getattr(day.pages, name)) for name in names), str(day.refused_requests))
        for day in reversed(report.days)
    ]
    return charts.table(head, rows, caption="Pages and refused requests by day")


def _shares(title: str, shares: Sequence[Share], *, unnamed: str) -> Markup:
    most = max((share.pages.charged for share in shares), default=0)
    items = markup.joined(
        Markup('<li><span class="share-name">{}</span>{}<small>{}</small></li>').format(
            _share_name(share, unnamed), charts.bar(share.pages.charged / most if most else 0), _share_words(share)
        )
        for share in shares[:_MOST_SHARES]
    )
    rest = len(shares) - _MOST_SHARES
    tail = Markup('<p class="hint">and {} more; the CSV has them all</p>').format(rest) if rest > 0 else Markup("")
    body = Markup('<ul class="shares">{}</ul>{}').format(items, tail) if shares else Markup("<p>Nothing yet.</p>")
    return Markup('<section class="card"><h2>{}</h2>{}</section>').format(title, body)


def _share_name(share: Share, unnamed: str) -> str:
    if share.id is None:
        return unnamed.capitalize()
    task = next((label for task, (label, _) in words.TASKS.items() if task.value == share.name), None)
    return task or share.name


def _share_words(share: Share) -> str:
    return usage_words.sums(share.pages)


def _receipts_card(csv: Markup, body: Markup) -> Markup:
    return Markup(
        '<section class="card" aria-labelledby="receipts-title"><div class="card-head"><h2 id="receipts-title">Receipts'
        "</h2>{}</div>{}</section>"
    ).format(csv, body)


def _sort_head(sort: ReceiptSort, label: str, asked: Asked) -> Markup:
    is_sorted = sort is asked.sort
    turned = replace(asked, sort=sort, is_ascending=is_sorted and not asked.is_ascending, after="")
    order = ("ascending" if asked.is_ascending else "descending") if is_sorted else "none"
    return Markup('<th scope="col" role="columnheader" aria-sort="{}"{}><a href="{}">{}</a></th>').format(
        order, Markup(' class="count"') if sort is not ReceiptSort.TIME else "", address(turned), label
    )


def _receipt(one: ListedReceipt, names: Mapping[str, str], zone_name: str) -> Markup:
    local = one.created_at.astimezone(ZoneInfo(zone_name))
    receipt = one.receipt
    ends = sorted((line for line in receipt.lines if line.kind != "reserved"), key=lambda line: line.kind)
    told = [f"{usage_words.number(line.pages or line.free_pages)} {line.words}" for line in ends]
    if receipt.pending:
        told.append(f"{usage_words.number(receipt.pending)} pending")
    return Markup(
        '<tr role="row"><td role="cell"><time datetime="{}">{}</time></td><td role="cell" class="work">{}'
        '<small>{}</small></td><td role="cell" class="by">{}</td>'
        '<td role="cell" class="count" data-label="Reserved">{}</td>'
        '<td role="cell" class="count" data-label="Charged">{}</td>'
        '<td role="cell" class="count" data-label="Returned">{}</td><td role="cell" class="why">{}</td></tr>'
    ).format(
        one.created_at.isoformat(timespec="seconds"),
        f"{local.day} {local:%b %H:%M}",
        _work(one, names),
        _task_words(one),
        one.key_name or one.member_email or "deleted member",
        usage_words.number(receipt.reserved),
        usage_words.number(receipt.charged),
        usage_words.number(receipt.returned),
        ", ".join(told),
    )


def _work(one: ListedReceipt, names: Mapping[str, str]) -> Markup:
    name = names.get(one.job_id or "")
    if name is None:
        return Markup("<span>{}</span>").format("deleted job" if one.job_id else "request")
    return Markup('<a href="/?job={}">{}</a>').format(one.job_id, name)


def _task_words(one: ListedReceipt) -> str:
    task = next((label for task, (label, _) in words.TASKS.items() if task.value == one.task), one.task)
    return f"{task} · {words.OCCASIONS.get(one.occasion, one.occasion)}"


def _paging(found: Sequence[ListedReceipt], asked: Asked, *, has_more: bool) -> Markup:
    links = []
    if asked.after:
        links.append(Markup('<a class="button" href="{}">First</a>').format(address(replace(asked, after=""))))
    if has_more:
        onward = replace(asked, after=found[-1].cursor)
        links.append(Markup('<a class="button" id="more-receipts" href="{}">More</a>').format(address(onward)))
    return Markup('<p class="paging">{}</p>').format(markup.joined(links)) if links else Markup("")


def _option(limit: Limit, standing: TenantStanding, *, is_chosen: bool) -> Markup:
    allowed = standing.terms.limits.value(limit) or 0
    return Markup('<option value="{}"{}>{} (now {})</option>').format(
        limit.value, Markup(" selected") if is_chosen else "", words.LIMITS[limit], usage_words.number(allowed)
    )


def _asked_list(asked: Sequence[AskedForMore], now: datetime) -> Markup:
    if not asked:
        return Markup("")
    items = markup.joined(
        Markup("<li>{} <b>{}</b> <small>{} · {}</small><p>{}</p>{}</li>").format(
            markup.badge(one.state, words.REQUEST_STATES.get(one.state, one.state)),
            usage_words.number(one.wanted or 0),
            words.LIMITS[one.limit].lower(),
            markup.moment(one.created_at, now),
            one.reason,
            Markup('<p class="answer">The admin: {}</p>').format(one.answer) if one.answer else "",
        )
        for one in asked
    )
    return Markup('<ul class="asked" aria-label="Requests for more">{}</ul>').format(items)


def _day_words(day: DayUse) -> str:
    return f"{usage_words.day_name(day.day)}: {usage_words.sums(day.pages)}"
