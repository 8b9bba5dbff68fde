"""Signed-in browsers against the running portal, with an eye on what must never happen in one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, BrowserContext, Page

from tests.conftest import RunningPortal

CHOOSE_FILES = "#drop input[type=file]:not([data-camera])"
ATTACK = "<img src=x onerror=alert(1)>"


@dataclass
class Visitor:
    """A member of a tenant of its own in a browser of its own."""

    page: Page
    email: str
    alerts: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Opens one of the portal's pages and waits until it knows who is here."""
        self.page.goto(path)
        self.page.wait_for_selector("#tenant-name", state="attached")
        return self.page

    def submit(self, *files: Path | dict[str, object]) -> str:
        """Runs the files in the Workspace and gives the job's id."""
        page = self.open("/")
        page.set_input_files(CHOOSE_FILES, list(files))  # type: ignore[arg-type]
        page.locator("#drop .file").nth(len(files) - 1).wait_for()
        page.click("#run")
        page.wait_for_url("**/?job=*")
        return page.url.split("job=")[1].split("&")[0]


def page_image(*lines: str) -> bytes:
    """A scan of our own: big black lines on white, as PNG."""
    image = Image.new("RGB", (1400, 200 + 110 * len(lines)), "white")
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        pen.text((80, 90 + 110 * number), line, font=ImageFont.load_default(size=52), fill="black")
    written = BytesIO()
    image.save(written, format="PNG")
    return written.getvalue()


def long_scan(pages: int, *lines: str) -> bytes:
    """A TIFF of that many pages, all alike: a job of it is under way for as long as a test needs."""
    page = Image.open(BytesIO(page_image(*lines))).convert("L")
    written = BytesIO()
    page.save(written, format="TIFF", save_all=True, append_images=[page] * (pages - 1), compression="tiff_deflate")
    return written.getvalue()


@pytest.fixture
def sign_up(portal: RunningPortal, browser: Browser) -> Iterator[Callable[[str], Visitor]]:
    """Signs a new tenant up, in a new browser context."""
    contexts: list[BrowserContext] = []

    def in_new_context(tenant: str) -> Visitor:
        context = browser.new_context(base_url=portal.url, viewport={"width": 1280, "height": 800})
        contexts.append(context)
        return register(context, portal.url, tenant)

    yield in_new_context
    for context in contexts:
        context.close()


def register(context: BrowserContext, url: str, tenant: str) -> Visitor:
    """A new tenant with its owner, signed in."""
    visitor = Visitor(context.new_page(), f"{secrets.token_hex(4)}@{tenant.lower()}.example")
    watch(visitor, url)
    visitor.page.goto("/signup")
    visitor.page.fill("#tenant_name", f"{tenant} {secrets.token_hex(4)}")
    visitor.page.fill("#email", visitor.email)
    visitor.page.fill("#password", "correct horse battery staple")
    visitor.page.click("button[type=submit]")
    visitor.page.wait_for_selector("#tenant-name", state="attached")
    return visitor


def watch(visitor: Visitor, url: str) -> None:
    """Notes dialogs, script errors and requests to outside."""
    page = visitor.page
    page.on("dialog", lambda dialog: (visitor.alerts.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: visitor.faults.append(str(error)))
    page.on("request", lambda request: visitor.outside.append(request.url) if _is_outside(request.url, url) else None)


def _is_outside(address: str, url: str) -> bool:
    return not address.startswith((url, "data:", "blob:"))
