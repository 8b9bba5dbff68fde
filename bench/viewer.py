"""The page viewer in a real Chromium: hover at 2,000 boxes, a finished page on screen, sign-in to a usable Workspace.

Times are of the browser's own performance clock, but for the page on screen, which begins when the row is stored. Run
by `python -m bench viewer`; needs Chromium.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from portal.engine.markdown import to_markdown
from portal.page_text import Block, Line, PageText
from tests.chromium import CHROMIUM_FLAGS, find_chromium
from tests.running_portal import RunningPortal, start_portal, stop_portal
from tests.ui.stored_jobs import finish_page, page_of, store_job

_EMAIL, _PASSWORD = "bench@bench.example", "correct horse battery staple"
_BOXES = 2000
_ROUNDS = 8
_COLUMNS = 20

# From the pointer's event until the frame that shows it is painted; the message comes after the paint.
_HOVER_JS = """async (count) => {
  const boxes = [...document.querySelectorAll('.boxes [data-line]')];
  const spent = [];
  const frame = () => new Promise(requestAnimationFrame);
  const painted = () => new Promise((done) => {
    const gate = new MessageChannel();
    gate.port1.onmessage = done;
    gate.port2.postMessage(0);
  });
  for (let at = 0; at < count; at += 1) {
    const box = boxes[(at * 37) % boxes.length];
    await frame();
    const began = performance.now();
    box.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
    const handled = performance.now() - began;
    await frame();
    await painted();
    const lit = document.querySelectorAll('.boxes .hot').length === 1 && box.classList.contains('hot');
    spent.push({ handled, shown: performance.now() - began, lit });
  }
  return spent;
}"""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 0 when there was a Chromium to measure with."""
    argparse.ArgumentParser(prog="bench viewer", description=__doc__).parse_args(argv)
    chromium = find_chromium()
    if chromium is None:
        print("No Chromium here, so nothing was measured.")
        return 1
    with tempfile.TemporaryDirectory(prefix="portal-bench-") as name, sync_playwright() as playwright:
        portal = start_portal(Path(name) / "data")
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_FLAGS))
        try:
            _print_all(portal, browser)
        finally:
            browser.close()
            stop_portal(portal)
    return 0


def _print_all(portal: RunningPortal, browser: Browser) -> None:
    print(f"Load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores\n")
    print(f"{'':<44}{'median ms':>11}{'worst ms':>11}")
    context = browser.new_context(base_url=portal.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    _sign_up(page)
    job_id = store_job(portal.data_dir, _EMAIL, [dense_page()])
    hovers = _hovers(page, job_id)
    _row(f"hover at {_BOXES} boxes: handlers", [hover["handled"] for hover in hovers])
    _row(f"hover at {_BOXES} boxes: frame shown", [hover["shown"] for hover in hovers])
    _row(f"page of {_BOXES} boxes: opened by key", _turns(portal, page))
    _row("page on screen after it is stored", _arrivals(portal, page))
    cold = [_sign_in(browser.new_context(base_url=portal.url)) for _ in range(3)]
    _row("sign-in to usable Workspace, cold", cold)
    warm = _signed_in_again(context)
    _row("sign-in to usable Workspace, warm", warm)


def dense_page(boxes: int = _BOXES) -> PageText:
    """A page of so many short lines, in rows of twenty, one in ten to be checked."""
    lines = tuple(
        Line(f"w{at}", _cell(at // _COLUMNS, at % _COLUMNS), 0.5 if at % 10 == 0 else 0.99) for at in range(boxes)
    )
    rows = [tuple((row * _COLUMNS + column,) for column in range(_COLUMNS)) for row in range(boxes // _COLUMNS)]
    blocks = tuple(Block("text", (row,)) for row in rows)
    return PageText(1660, 2300, lines, blocks, to_markdown(lines, blocks), 0.9, check_below=0.9)


def _cell(row: int, column: int) -> tuple[int, int, int, int]:
    x0, y0 = 30 + 80 * column, 40 + 22 * row
    return x0, y0, x0 + 66, y0 + 16


def _hovers(page: Page, job_id: str) -> list[dict[str, float]]:
    page.goto(f"/?job={job_id}")
    page.locator(".viewer[data-shown='1']").wait_for()
    page.wait_for_timeout(500)
    hovers: list[dict[str, float]] = page.evaluate(_HOVER_JS, 60)
    if not all(hover["lit"] for hover in hovers):
        raise RuntimeError("a hover lit nothing")
    return hovers


def _turns(portal: RunningPortal, page: Page) -> list[float]:
    job_id = store_job(portal.data_dir, _EMAIL, [dense_page() for _ in range(_ROUNDS + 1)])
    page.goto(f"/?job={job_id}")
    page.locator(".viewer[data-shown='1']").wait_for()
    spent = []
    for position in range(2, _ROUNDS + 2):
        began = time.perf_counter()
        page.keyboard.press("]")
        page.locator(f".viewer[data-shown='{position}']").wait_for()
        page.evaluate("() => new Promise(requestAnimationFrame)")
        spent.append(1000 * (time.perf_counter() - began))
    return spent


def _arrivals(portal: RunningPortal, page: Page) -> list[float]:
    spent = []
    for at in range(_ROUNDS):
        job_id = store_job(portal.data_dir, _EMAIL, [page_of(["first"]), None])
        page.goto(f"/?job={job_id}&at=2")
        page.locator(".viewer[data-shown='2']").wait_for()
        page.wait_for_timeout(137 * at)  # at no fixed place between two ticks
        finish_page(portal.data_dir, job_id, 2, page_of(["arrived"]))
        began = time.perf_counter()
        page.get_by_text("arrived").wait_for()
        spent.append(1000 * (time.perf_counter() - began))
    return spent


def _sign_up(page: Page) -> None:
    page.goto("/signup")
    for name, value in (("tenant_name", "Bench"), ("email", _EMAIL), ("password", _PASSWORD)):
        page.fill(f"#{name}", value)
    page.click("button[type=submit]")
    page.wait_for_selector("#tenant-name", state="attached")


def _sign_in(context: BrowserContext) -> float:
    """Milliseconds from the press of the button until files can be dropped and the account is shown."""
    page = context.pages[0] if context.pages else context.new_page()
    page.goto("/login")
    page.fill("#email", _EMAIL)
    page.fill("#password", _PASSWORD)
    began = time.perf_counter()
    page.click("button[type=submit]")
    page.locator("#run").wait_for()
    page.wait_for_selector("#tenant-name", state="attached")
    return 1000 * (time.perf_counter() - began)


def _signed_in_again(context: BrowserContext) -> list[float]:
    spent = []
    for _ in range(_ROUNDS):
        page = context.pages[0]
        page.goto("/")
        page.wait_for_selector("#tenant-name", state="attached")
        page.click("#sign-out")
        page.wait_for_url("**/login**")
        spent.append(_sign_in(context))
    return spent


def _row(title: str, milliseconds: Sequence[float]) -> None:
    print(f"{title:<44}{median(milliseconds):>11.1f}{max(milliseconds):>11.1f}", flush=True)
