"""The pages in real Chromium: no serious finding of axe, big enough targets, no sideways scrolling."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from tests.web.pages import PASSWORD
from tests.web.pages.conftest import NewClient

STATIC = Path(__file__).resolve().parents[3] / "static"
SMALL_TARGETS = """
[...document.querySelectorAll('a, button, input:not([type=hidden])')]
  .filter(element => element.offsetParent && element.getBoundingClientRect().height < 44)
  .map(element => element.outerHTML)
"""


@pytest.fixture
def address(new_client: NewClient) -> Iterator[str]:
    """Where the pages are served, with the static files beside them."""
    app = Starlette(routes=[Mount("/static", StaticFiles(directory=STATIC)), Mount("/", new_client().app)])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


def _check(page: Page) -> None:
    findings = Axe().run(page)
    assert len(findings.response["passes"]) > 10
    assert [(found["id"], found["nodes"][0]["html"]) for found in findings.response["violations"]] == []
    assert page.evaluate(SMALL_TARGETS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_are_accessible_on_phone_and_desk(address: str, browser: Browser, scheme: str, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{address}/login")
    _check(page)
    page.get_by_role("link", name="Create an account").click()
    _check(page)
    page.get_by_label("Team or company").fill("Alpha")
    page.get_by_label("E-mail").fill("alice@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Show password").click()
    assert page.get_by_label("Password").get_attribute("type") == "text"
    assert complaints == []
    page.get_by_role("button", name="Create account").click()
    page.goto(f"{address}/account")
    _check(page)
    page.goto(f"{address}/nowhere")
    _check(page)


def test_member_signs_up_out_and_in_when_javascript_is_off(address: str, browser: Browser) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{address}/signup?next=/account")
    page.get_by_label("Team or company").fill("Alpha")
    page.get_by_label("E-mail").fill("alice@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.get_by_role("heading", name="Account", exact=True).wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    page.goto(f"{address}/account")
    page.get_by_label("E-mail").fill("alice@example.org")
    page.get_by_label("Password").fill("a wrong password")
    page.get_by_label("Password").press("Enter")
    page.get_by_text("The e-mail or the password is wrong.").wait_for()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Password").press("Enter")
    page.get_by_role("heading", name="Account", exact=True).wait_for()
    assert page.url == f"{address}/account"
