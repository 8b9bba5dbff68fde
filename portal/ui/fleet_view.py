"""The tab Fleet as HTML: queue, one copy, router, each instance, engines. Unknown is a dash, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from markupsafe import Markup

from portal.engine.vllm.workers import Worker
from portal.errors import PortalError
from portal.fleet.machines import EngineSight
from portal.fleet.watch import FleetSight
from portal.serving.fleet_status import FleetStatus, InstanceStatus
from portal.tenancy.overview import Queue
from portal.ui import fleet_effects, markup, words

_UNKNOWN = "–"
_MOST_ERROR_CHARACTERS = 500

# State → (the badge's colour, in words).
STATES = {
    "waiting": ("queued", "Waits to start"),
    "starting": ("running", "Starting"),
    "ready": ("active", "Ready"),
    "draining": ("running", "Finishing its pages"),
    "backoff": ("partial", "Failed, starts again"),
    "failed": ("failed", "Given up"),
    "stopped": ("queued", "Taken out"),
}

_GIVEN_UP = Markup(
    '<p class="hint">It failed too often in a short time and is not started by itself any more. Mend the cause (its '
    "log on the GPU box tells more), then start it again.</p>"
)

_PART_GIVEN_UP = Markup(
    '<p class="hint">What was given up is started again by any restart, once its cause is mended.</p>'
)


@dataclass(frozen=True)
class FleetPage:
    """What one redraw shows. `sight` and `address` are None where no fleet is configured."""

    queue: Queue
    sight: FleetSight | None
    address: str | None
    engines: Sequence[EngineSight]
    now: datetime


def drawn(page: FleetPage) -> Markup:
    """All of the tab."""
    return Markup('<div class="fleet">{}{}{}</div>').format(_figures(page), _fleet(page), _engines(page.engines))


def _figures(page: FleetPage) -> Markup:
    queue = page.queue
    waits = "nothing waits" if queue.oldest_seconds is None else f"the oldest {words.duration(queue.oldest_seconds)}"
    figures = [
        ("Pages waiting", f"{queue.queued_pages:,}", waits),
        ("Being read", f"{queue.running_pages:,}", ""),
    ]
    if page.sight is not None:
        workers, status = page.sight.workers, page.sight.status
        ready = _UNKNOWN if workers is None else f"{workers[0]} of {workers[1]}"
        fits = status.fleet.fitting_instances if status is not None else None
        figures.append(("Instances ready", ready, "" if fits is None else f"{fits} fit on the device"))
    return Markup('<dl class="figures">{}</dl>').format(
        markup.joined(
            Markup("<div><dt>{}</dt><dd>{} <small>{}</small></dd></div>").format(*figure) for figure in figures
        )
    )


def _fleet(page: FleetPage) -> Markup:
    if page.sight is None:
        return _unconfigured()
    status = page.sight.status
    if status is None:
        return _away(page.sight.trouble, page.address or "")
    listed = markup.joined(_instance(each, status, page) for each in status.instances)
    return Markup('{}<ul class="entries instances" aria-label="Instances">{}</ul>').format(_head(status), listed)


def _unconfigured() -> Markup:
    return Markup(
        '<section class="card"><h2>No fleet is configured</h2><p>Several vLLM instances that share one copy of the '
        "weights are a fleet: <code>python app.py fleet up</code> on the GPU box. To see and steer it here, set "
        "<code>PORTAL_FLEET_URL</code> to its control and restart the portal.</p></section>"
    )


def _away(trouble: PortalError | None, address: str) -> Markup:
    said = f"{trouble.message} {trouble.remedy}" if trouble is not None else ""
    way = (
        "a socket of this machine, open to the fleet’s own user alone"
        if address.startswith("/")
        else "with the token of PORTAL_FLEET_TOKEN"
    )
    return Markup(
        '<div class="notice" data-tone="warning" role="status"><strong>The fleet does not answer</strong><p>{}</p>'
        "<p>It is asked at <code>{}</code> (PORTAL_FLEET_URL, {}). Nothing is known of its instances until it answers; "
        "this page goes on asking. The portal works on, and accepted pages wait for their engine.</p></div>"
    ).format(said, address, way)


def _head(status: FleetStatus) -> Markup:
    facts, store, router = status.fleet, status.store, status.router
    mps = ", MPS" if facts.mps else ""
    device = "the processor" if facts.device == "cpu" else f"device {facts.device}"
    return Markup(
        '<section class="card"><div class="tenant-head"><h2>{} <small>on {}{}</small></h2>{}</div>{}'
        '<dl class="parts"><div><dt>Weights</dt><dd>{} {}</dd></div><div><dt>Router</dt><dd>{} {}</dd></div></dl>{}{}{}'
        "</section>"
    ).format(
        facts.served_name,
        device,
        mps,
        _button("restart", "", "Restart all", fleet_effects.restart_all(status)) if not facts.is_rolling else "",
        _rolling() if facts.is_rolling else "",
        _badge(store.state),
        _copy(status),
        _badge(router.state),
        f"{router.url}, picks from {words.counted(len(router.workers), 'instance')}",
        _error("The store’s last failure", store.last_error),
        _error("The router’s last failure", router.last_error),
        _PART_GIVEN_UP if "failed" in (store.state, router.state) else "",
    )


def _rolling() -> Markup:
    return Markup(
        '<p class="hint" role="status">A restart is under way, one instance at a time; '
        "more can be ordered when it has ended.</p>"
    )


def _copy(status: FleetStatus) -> str:
    store = status.store
    readers = "readers unknown" if store.leases is None else words.counted(len(store.leases), "reader")
    generation = f", copy number {store.generation} since the fleet came up" if (store.generation or 0) > 1 else ""
    return f"one copy of {_memory(store.total_bytes)} by {status.fleet.transport}, {readers}{generation}"


def _instance(instance: InstanceStatus, status: FleetStatus, page: FleetPage) -> Markup:
    rate = page.sight.answers_a_minute.get(instance.number) if page.sight is not None else None
    figures = (
        ("Reading", _number(instance.running)),
        ("Waiting", _number(instance.waiting)),
        ("Answers a minute", _UNKNOWN if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"),
        ("KV cache used", _UNKNOWN if instance.cache_used is None else f"{instance.cache_used:.0%}"),
        ("Memory of its own", _memory(instance.private_bytes)),
    )
    return Markup(
        '<li class="entry instance-entry"><div class="entry-main"><b>{}</b> {}<p class="entry-facts">{}</p>{}{}</div>'
        '<dl class="instance-figures">{}</dl><div class="entry-actions">{}</div></li>'
    ).format(
        instance.name,
        _badge(instance.state),
        " · ".join(_facts(instance, page.now)),
        _error("Last failure", instance.last_error),
        _GIVEN_UP if instance.state == "failed" else "",
        markup.joined(Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(*figure) for figure in figures),
        _actions(instance, status),
    )


def _facts(instance: InstanceStatus, now: datetime) -> list[str]:
    port = urlsplit(instance.url).port
    facts = [f"port {port}" if port is not None else instance.url]
    if instance.ready_since is not None:
        since = datetime.fromtimestamp(instance.ready_since, UTC)
        lasted = words.duration(max(0.0, (now - since).total_seconds()))
        facts.append(f"ready for {lasted}" if instance.is_ready else f"last got ready {lasted} ago")
    facts.append(f"started {_times(instance.starts)}" if instance.starts else "not started yet")
    if instance.failures:
        facts.append(f"failed {_times(instance.failures)}")
    return facts


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _actions(instance: InstanceStatus, status: FleetStatus) -> Markup:
    number = str(instance.number)
    drain = fleet_effects.drain(instance, status)
    restart = fleet_effects.restart(instance, status)
    is_out = instance.state in ("stopped", "failed")
    return Markup("{}{}").format(
        _button("drain", number, "Drain", drain, name=instance.name) if drain is not None else "",
        _button("restart", number, "Start again" if is_out else "Restart", restart, name=instance.name)
        if not status.fleet.is_rolling
        else "",
    )


def _button(action: str, target: str, label: str, effect: str | None, *, name: str = "the fleet") -> Markup:
    asks = {"Restart all": "Restart all instances?"}.get(label, f"{label} {name}?")
    return Markup(
        '<button type="button" class="button" data-action="{}" data-target="{}" aria-label="{} {}" data-confirm="{}" '
        'data-detail="{}" data-yes="{}" data-no="Cancel">{}</button>'
    ).format(action, target, label, name, asks, effect or "", label, label)


def _badge(state: str) -> Markup:
    return markup.badge(*STATES.get(state, ("queued", state)))


def _error(title: str, text: str) -> Markup:
    if not text:
        return Markup("")
    return Markup('<p class="failure"><b>{}:</b> {}</p>').format(title, text[:_MOST_ERROR_CHARACTERS])


def _memory(size: int | None) -> str:
    """In units of 1000, as cards and README count."""
    if size is None:
        return _UNKNOWN
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6)):,} MB"


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _engines(engines: Sequence[EngineSight]) -> Markup:
    return Markup(
        '<section class="group"><h2>Engines</h2><ul class="entries" aria-label="Engines">{}</ul></section>'
    ).format(markup.joined(_engine(engine) for engine in engines))


def _engine(engine: EngineSight) -> Markup:
    own = engine.capability
    place = "elsewhere, over HTTP" if own.is_remote else "in this portal"
    return Markup(
        '<li class="entry engine-entry"><div class="entry-main"><b>{}</b> {}<p class="entry-facts">{}</p>{}{}</div>'
        "</li>"
    ).format(
        own.name,
        markup.badge("active", "Ready") if engine.trouble is None else markup.badge("partial", "Not ready"),
        f"{own.checkpoint} · {place} · reads {words.counted(engine.slots, 'page')} at once",
        _error("Why", engine.trouble or ""),
        _workers(engine.workers),
    )


def _workers(workers: tuple[Worker, ...] | None) -> Markup:
    if workers is None:
        return Markup("")
    healthy = sum(worker.is_healthy for worker in workers)
    listed = markup.joined(
        Markup("<li>{} <code>{}</code> <small>{}</small></li>").format(
            markup.badge("active", "Healthy") if worker.is_healthy else markup.badge("failed", "Down"),
            worker.address,
            "" if worker.load is None else f"{words.counted(worker.load, 'request')} under way",
        )
        for worker in workers
    )
    return Markup(
        '<p class="entry-facts">A router stands in front: {} of {} are healthy.</p><ul class="workers">{}</ul>'
    ).format(healthy, words.counted(len(workers), "worker"), listed)
