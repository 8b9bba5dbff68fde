"""The Admin page's tab Fleet: shown anew every few seconds while it is open, and where instances are ordered about.

A fleet that is slow or away is waited for in a thread, a few seconds at most; the rest of the page is there before.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import gradio as gr
from markupsafe import Markup

from portal.domain import Principal
from portal.errors import InvalidRequest
from portal.fleet import orders
from portal.fleet.watch import FleetSight
from portal.services import Services
from portal.tenancy.overview import queue_now
from portal.ui import fleet_view, identity, markup, messages, shell
from portal.ui.fleet_view import FleetPage

NAME = "fleet"
_POLL_SECONDS = 5
_FIRST_LOOK_SECONDS = 1.0
_ASKING = Markup('<div class="fleet"><p class="hint" role="status">Asking the fleet…</p></div>')


class FleetTab:
    """Lays the tab's part of the page out and answers its events; empty while another tab is open."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._actions: dict[str, Callable[[Principal, str], Markup]] = {"drain": self._drain, "restart": self._restart}

    def lay(self, page: gr.Blocks) -> None:
        """Places notice and body and wires them; called inside the page's Blocks context."""
        notice = shell.fragment("fleet-notice")
        body = shell.fragment("fleet-body")
        timer = gr.Timer(_POLL_SECONDS, active=False)
        opened = shell.on(page.load, messages.polled(self._open), outputs=[body, timer], queue=False)
        shell.on(opened.then, messages.told(self._first), outputs=body)
        shell.on(timer.tick, messages.polled(self._tick), outputs=body, queue=False)
        shell.on(body.submit, self._act, outputs=[notice, body])

    def _open(self, request: gr.Request) -> tuple[Any, gr.Timer]:
        """At once: a fleet that is slow would leave the tab empty until it is drawn."""
        identity.admin_of(request)
        is_here = identity.asked(request, "tab") == NAME
        return _ASKING if is_here else gr.skip(), gr.Timer(active=is_here)

    def _first(self, request: gr.Request) -> Any:
        identity.admin_of(request)
        if identity.asked(request, "tab") != NAME:
            return gr.skip()
        try:
            return self._drawn()
        except Exception as error:  # noqa: BLE001  messages.inline is the translator
            return messages.inline(error)

    def _tick(self, request: gr.Request) -> Markup:
        identity.admin_of(request)
        return self._drawn()

    def _act(self, event: gr.EventData, request: gr.Request) -> tuple[Any, Any]:
        try:
            with identity.in_request((request,)):
                who = identity.admin_of(request)
                action = self._actions.get(str(event._data.get("action")))
                if action is None:
                    raise InvalidRequest("That cannot be done.", remedy="Reload the page.")
                return action(who, str(event._data.get("target") or "")), self._drawn()
        except Exception as error:  # noqa: BLE001  translator of this edge
            return messages.inline(error), gr.skip()

    def _drain(self, who: Principal, target: str) -> Markup:
        number = _number(target)
        orders.drain(self._services.database, self._services.machines.fleet, who, number)
        return markup.notice(
            f"Instance {number} takes no new page", "It stops when it has finished those it has.", tone="plain"
        )

    def _restart(self, who: Principal, target: str) -> Markup:
        number = _number(target) if target else None
        orders.restart(self._services.database, self._services.machines.fleet, who, number)
        title = "The instances are replaced one by one" if number is None else f"Instance {number} is started anew"
        return markup.notice(title, "Its state below shows how it goes.", tone="plain")

    def _drawn(self) -> Markup:
        fleet = self._services.machines.fleet
        sight: FleetSight | None = fleet.sight() if fleet is not None else None
        engines = self._services.machines.engines(wait_seconds=_FIRST_LOOK_SECONDS)
        with self._services.database.reading() as session:
            queue = queue_now(session)
        address = fleet.address if fleet is not None else None
        return fleet_view.drawn(FleetPage(queue, sight, address, engines, datetime.now(UTC)))


def _number(target: str) -> int:
    if not target.isascii() or not target.isdigit() or len(target) > 4:
        raise InvalidRequest("There is no such instance.", remedy="Reload the page and use one of those shown.")
    return int(target)
