"""The tab Fleet in a browser, over a real supervisor: states, orders with their confirmation, a fleet that is away."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import gradio as gr
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from starlette.requests import Request

from portal.domain import Principal, Role, Scope
from portal.errors import NotFound
from portal.services import Services
from portal.ui.admin_fleet import FleetTab
from tests.fleet.scripted import TOKEN
from tests.running_portal import RunningPortal, start_portal, stop_portal
from tests.serving.fleets import FakeFleet
from tests.ui.conftest import Visitor, register, watch

WAIT = 30_000


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeFleet]:
    """Two instances, steered over TCP."""
    made = FakeFleet(tmp_path_factory.mktemp("fleet") / "box")
    token = made.folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with made.config.open("a") as file:
        file.write(f'\n[control]\nport = {_free_port()}\ntoken_file = "{token}"\n')
    yield made.up_and_ready()
    made.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def steering(fleet: FakeFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPortal]:
    """A portal that was told of the fleet, with an engine behind the fleet's router."""
    port = fleet.config.read_text().partition("[control]\nport = ")[2].split()[0]
    running = start_portal(
        tmp_path_factory.mktemp("steering") / "data",
        PORTAL_FLEET_URL=f"http://127.0.0.1:{port}",
        PORTAL_FLEET_TOKEN=TOKEN,
        PORTAL_EMBEDDED="off",
        PORTAL_VLLM_URL=f"http://127.0.0.1:{fleet.ports[-2]}/v1",
        PORTAL_VLLM_MODEL="ocr",
    )
    yield running
    stop_portal(running)


@pytest.fixture
def admin(steering: RunningPortal, browser: Browser) -> Iterator[Visitor]:
    context = browser.new_context(base_url=steering.url, viewport={"width": 1280, "height": 900})
    visitor = Visitor(context.new_page(), steering.admin_email)
    watch(visitor, steering.url)
    visitor.page.goto("/login")
    visitor.page.fill("#email", steering.admin_email)
    visitor.page.fill("#password", steering.admin_password)
    visitor.page.click("button[type=submit]")
    visitor.page.wait_for_selector("#tenant-name", state="attached")
    yield visitor
    context.close()


def test_instance_is_drained_and_started_again_when_that_is_confirmed(admin: Visitor, fleet: FakeFleet) -> None:
    page = admin.open("/admin?tab=fleet")
    second = page.locator(".instance-entry").nth(1)
    expect(second.locator(".badge")).to_have_text("Ready")
    second.get_by_role("button", name="Drain").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("1 other instance reads on meanwhile")
    dialog.get_by_role("button", name="Cancel").click()
    second.get_by_role("button", name="Drain").click()
    dialog.get_by_role("button", name="Drain").click()
    expect(page.locator("#fleet-notice")).to_contain_text("Instance 1 takes no new page")
    expect(second.locator(".badge")).to_have_text("Taken out", timeout=WAIT)
    expect(page.locator(".instance-entry").first.get_by_role("button", name="Drain")).to_have_count(0)
    second.get_by_role("button", name="Start again").click()
    dialog.get_by_role("button", name="Start again").click()
    expect(second.locator(".badge")).to_have_text("Ready", timeout=WAIT)
    assert TOKEN not in page.content()
    page.goto("/admin?tab=audit")
    page.fill("[name=action]", "fleet.drain")
    page.click("#filter-audit")
    entries = page.locator(".audit-entry")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text(admin.email)
    expect(entries).to_contain_text("instance-1: ready → draining")
    assert (admin.alerts, admin.faults, admin.outside) == ([], [], [])


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_tab_has_no_serious_fault_and_fits(admin: Visitor, width: int, scheme: str) -> None:
    admin.page.set_viewport_size({"width": width, "height": 900})
    admin.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = admin.open("/admin?tab=fleet")
    page.locator(".instance-entry").first.wait_for()
    found = Axe().run(page).response["violations"]
    serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
    assert serious == [], [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in serious]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tenant_sees_nothing_of_it(steering: RunningPortal, browser: Browser) -> None:
    context = browser.new_context(base_url=steering.url)
    alice = register(context, steering.url, "Alpha")
    assert alice.page.request.get("/admin?tab=fleet").status == 404
    assert "instance-0" not in alice.page.content()
    context.close()


@pytest.mark.parametrize("event", ["_open", "_first", "_tick"])
def test_event_is_refused_when_the_caller_is_no_admin(event: str) -> None:
    """Gradio answers events without their page."""
    tab = FleetTab(cast(Services, None))
    with pytest.raises(NotFound):
        getattr(tab, event)(_request())


def test_order_is_refused_when_the_caller_is_no_admin() -> None:
    tab = FleetTab(cast(Services, None))
    ordered = cast(gr.EventData, SimpleNamespace(_data={"action": "drain", "target": "0"}))
    notice, _ = tab._act(ordered, _request())
    assert "There is no such page." in notice


def _request() -> gr.Request:
    scopes = frozenset({Scope.OCR, Scope.READ})
    bob = Principal("ten_1", "acme", "mem_1", "b@x.example", Role.OWNER, is_admin=False, scopes=scopes)
    scope = {"type": "http", "query_string": b"tab=fleet", "headers": [], "state": {"principal": bob}}
    return gr.Request(request=Request(scope))  # type: ignore[arg-type]


def test_fleet_that_ended_is_told_and_the_page_works_on(
    admin: Visitor, fleet: FakeFleet, steering: RunningPortal
) -> None:
    page = admin.open("/admin?tab=fleet")
    page.locator(".instance-entry").first.wait_for()
    fleet.stop()
    expect(page.locator("#fleet-body .notice")).to_contain_text("The fleet does not answer", timeout=WAIT)
    expect(page.locator("#fleet-body")).to_contain_text("Start it on the GPU box")
    expect(page.locator(".figures")).to_contain_text("Pages waiting")
    ready = page.request.get("/readyz")
    assert (ready.status, "fleet" in ready.json()["parts"]) == (200, True)
    page.get_by_role("link", name="Tenants").click()
    page.locator("#admin-body section").first.wait_for()
    assert TOKEN not in steering.log_file.read_text() + page.content()
    assert admin.faults == []
