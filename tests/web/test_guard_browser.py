"""The guarded app in a real Chromium: everything works, the console is clean, injected markup does not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.web.gradio_client import Served

expect.set_options(timeout=15_000)

VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', event => {
    window.violations.push([event.violatedDirective, event.blockedURI, event.sample].join(' '));
});
"""


@pytest.fixture
def alices(browser: Browser, guarded: Served) -> Iterator[BrowserContext]:
    """A browser in which alice is signed in."""
    context = browser.new_context()
    context.set_default_timeout(15_000)
    context.add_cookies([{"name": "portal_session", "value": "a", "url": guarded.url, "httpOnly": True}])
    context.add_init_script(VIOLATIONS)
    yield context
    context.close()


def errors_of(page: Page) -> list[str]:
    """Errors in the console and in scripts, and refused requests, from now on. The hostile image is left out."""
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and "inline event handler" not in message.text:
            errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("response", lambda answer: errors.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    return errors


def test_app_works_end_to_end_when_it_is_guarded(alices: BrowserContext, guarded: Served, tmp_path: Path) -> None:
    scan = tmp_path / "my scan.txt"
    scan.write_text("typed by alice")
    page = alices.new_page()
    errors = errors_of(page)
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(guarded.url)
    expect(page.locator("#loaded textarea")).to_have_value("alice@acme.example, csrf of a, cookie None")
    expect(page.locator("#ticked textarea")).to_have_value("tick of alice@acme.example")
    expect(page.locator("#shouted")).to_have_text("ALOUD")
    page.set_input_files("#document input[type=file]", scan)
    expect(page.locator("#document a[href*='file=']")).to_be_visible()
    page.fill("#note textarea", "hello")
    page.click("#run")
    expect(page.locator("#said textarea")).to_have_value("alice@acme.example read 'typed by alice' hello 0")
    page.click("#run")
    expect(page.locator("#said textarea")).to_have_value("alice@acme.example read 'typed by alice' hello 1")
    violations = page.evaluate("window.violations")
    page.get_by_role("link", name="History").click()
    expect(page.locator("#past textarea")).to_have_value("alice@acme.example, csrf of a, cookie None")
    assert [text for text in violations if not text.startswith("script-src-attr inline")] == []
    assert page.evaluate("window.violations") == []
    assert errors == []
    assert hosts == {guarded.url.split("/")[2]}


def test_injected_markup_does_not_run_when_a_component_shows_it(alices: BrowserContext, guarded: Served) -> None:
    page = alices.new_page()
    page.goto(guarded.url)
    page.locator("#hostile").wait_for(state="attached")
    expect(page.locator("#ticked textarea")).to_have_value("tick of alice@acme.example")
    assert page.title() == "Guarded"
    assert any(text.startswith("script-src-attr inline") for text in page.evaluate("window.violations"))


def test_stranger_sees_the_sign_in_address_when_it_opens_a_page(browser: Browser, guarded: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{guarded.url}/history?job=1")
    assert page.url == f"{guarded.url}/login?next=/history%3Fjob%3D1"
    context.close()
