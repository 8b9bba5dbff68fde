"""What an order would do is said in words; what is not known is a dash; hostile words stay words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from portal.engine.fakes import FakeEngine
from portal.engine.vllm.workers import Worker
from portal.errors import Unavailable
from portal.fleet.machines import EngineSight
from portal.fleet.watch import FleetSight
from portal.serving.fleet_status import FleetStatus, read_status
from portal.tenancy.overview import Queue
from portal.ui import fleet_effects, fleet_view
from portal.ui.fleet_view import FleetPage
from tests.fleet.scripted import ScriptedSupervisor, status_of

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ATTACK = "<img src=x onerror=alert(1)>"


def _status(*states: str, last_error: str = "", is_rolling: bool = False) -> FleetStatus:
    supervisor = ScriptedSupervisor(fleet=None, states=list(states), last_error=last_error)  # type: ignore[arg-type]
    told = status_of(supervisor)
    told["fleet"]["is_rolling"] = is_rolling
    return read_status(told)


def _drawn(sight: FleetSight | None, workers: tuple[Worker, ...] | None = None, address: str | None = "/run/c") -> str:
    engine = FakeEngine()
    engines = (EngineSight(engine.capability, 4, ATTACK, workers),)
    return str(fleet_view.drawn(FleetPage(Queue(7, 1, 125.0), sight, address, engines, NOW)))


def test_effect_of_draining_says_what_goes_on() -> None:
    status = _status("ready", "ready", "stopped")
    effect = fleet_effects.drain(status.instances[0], status)
    assert effect is not None
    assert "finishes the 3 pages it has" in effect
    assert "1 other instance reads on" in effect
    assert fleet_effects.drain(status.instances[2], status) is None


@pytest.mark.parametrize("states", [("ready", "failed"), ("draining", "ready"), ("failed", "ready")])
def test_drain_is_not_offered_when_it_would_leave_nobody_or_nothing_is_to_drain(states: tuple[str, str]) -> None:
    status = _status(*states)
    assert fleet_effects.drain(status.instances[0], status) is None


def test_effect_of_restarting_the_only_reader_says_that_pages_wait() -> None:
    status = _status("ready", "failed")
    assert "nobody reads, and accepted pages wait" in fleet_effects.restart(status.instances[0], status)
    assert "1 other instance reads on" in fleet_effects.restart(status.instances[1], status).lower()
    assert "at times nobody will" in fleet_effects.restart_all(status)
    assert "No page is lost" in fleet_effects.restart_all(_status("ready", "ready"))


def test_states_and_figures_are_shown_and_unknown_is_a_dash() -> None:
    shown = _drawn(FleetSight(_status("ready", "failed"), None, {0: 42.4}))
    for words in ("Ready", "Given up", "1 of 2", "706 MB", "1.20 GB", "25%", ">42<", ">–<", "port 8101", "memfd"):
        assert words in shown, words
    assert 'data-action="restart" data-target="1"' in shown
    assert "the oldest about 2 min" in shown


def test_no_order_is_offered_while_a_rolling_restart_is_under_way() -> None:
    shown = _drawn(FleetSight(_status("ready", "starting", is_rolling=True)))
    assert "A restart is under way" in shown
    assert "data-action" not in shown


def test_fleet_that_is_away_is_told_with_what_to_do() -> None:
    shown = _drawn(FleetSight(trouble=Unavailable("It does not answer.", remedy="Start it.")))
    for words in ("The fleet does not answer", "It does not answer. Start it.", "PORTAL_FLEET_URL", "fleet’s own user"):
        assert words in shown, words
    assert "Engines" in shown


def test_setting_is_named_when_no_fleet_is_configured() -> None:
    shown = _drawn(None, address=None)
    assert "No fleet is configured" in shown
    assert "PORTAL_FLEET_URL" in shown


def test_routers_workers_are_shown_when_there_is_one_without_a_fleet() -> None:
    shown = _drawn(None, (Worker("10.0.0.5:8101", True, 2), Worker(ATTACK, False, None)))
    assert "1 of 2 workers are healthy" in shown
    assert "2 requests under way" in shown
    assert "Down" in shown


def test_words_from_outside_stay_words() -> None:
    shown = _drawn(FleetSight(_status(ATTACK, "backoff", last_error=ATTACK * 30)), (Worker(ATTACK, True, 0),))
    assert "<img" not in shown
    assert shown.count("&lt;img") > 4
