"""The page viewer in a real Chromium: every interaction, on pages of our own with known lines, tables and scores."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from portal.page_text import PageText
from tests.conftest import RunningPortal
from tests.ui.conftest import ATTACK, Visitor, page_image, register, watch
from tests.ui.stored_jobs import finish_page, page_of, store_job

TABLE = (("Item", "Price"), ("Loaf", "7.80"), ("=1+1", "-2,50"))
FIRST = page_of(["Corner House", "14 Mill Lane", "Ash?ord", *TABLE, "Thank you"], doubtful=["Ash?ord", "7.80"])
SECOND = page_of(["Second sheet", "All is well"], skew_degrees=1.2)
THIRD = page_of([f"Row {number}" for number in range(60)], doubtful=["Row 55"], size=(800, 2500))

Show = Callable[..., Page]


@pytest.fixture(scope="module")
def account(portal: RunningPortal, browser: Browser) -> tuple[str, Any]:
    """An e-mail and the cookies of its browser: one sign-up for all tests here."""
    context = browser.new_context(base_url=portal.url)
    visitor = register(context, portal.url, "Alice")
    state = context.storage_state()
    context.close()
    return visitor.email, state


@pytest.fixture
def alice(account: tuple[str, Any], portal: RunningPortal, browser: Browser) -> Iterator[Visitor]:
    email, state = account
    context = browser.new_context(
        base_url=portal.url,
        storage_state=state,
        viewport={"width": 1280, "height": 800},
        permissions=["clipboard-read", "clipboard-write"],
    )
    visitor = Visitor(context.new_page(), email)
    watch(visitor, portal.url)
    yield visitor
    context.close()


@pytest.fixture
def show(alice: Visitor, portal: RunningPortal) -> Show:
    def show(*pages: PageText | None, file_name: str = "report.pdf", at: int = 1) -> Page:
        job_id = store_job(portal.data_dir, alice.email, pages or (FIRST, SECOND, THIRD), file_name=file_name)
        page = alice.open(f"/?job={job_id}&at={at}")
        page.locator(f".viewer[data-shown='{at}']").wait_for()
        return page

    return show


def box(page: Page, line: int) -> Locator:
    return page.locator(f".boxes [data-line='{line}']")


def text(page: Page, line: int) -> Locator:
    return page.locator(f"#page-text [data-line='{line}']")


def _classes(*expected: str) -> re.Pattern[str]:
    return re.compile("".join(rf"(?=.*\b{name}\b)" for name in expected))


def _clipboard(page: Page) -> str:
    return str(page.evaluate("navigator.clipboard.readText()"))


def _view_box(page: Page) -> list[float]:
    return [float(part) for part in (page.locator("svg.sheet").get_attribute("viewBox") or "").split()]


def test_line_and_box_light_together_when_either_is_hovered(show: Show) -> None:
    page = show()
    text(page, 1).hover()
    expect(box(page, 1)).to_have_class(_classes("hot"))
    box(page, 4).hover()
    expect(text(page, 4)).to_have_class(_classes("hot"))
    expect(box(page, 1)).not_to_have_class(_classes("hot"))
    page.locator(".job-title h1").hover()
    expect(page.locator(".viewer .hot")).to_have_count(0)


def test_boxes_stand_on_the_page_and_tilt_with_it(show: Show) -> None:
    page = show()
    assert box(page, 0).get_attribute("points") == "60 60 224 60 224 86 60 86"
    image, drawn = page.locator("svg.sheet image").bounding_box(), box(page, 0).bounding_box()
    assert image is not None
    assert drawn is not None
    assert abs((drawn["x"] - image["x"]) / image["width"] - 60 / 800) < 0.01
    page.keyboard.press("]")
    expect(page.locator(".viewer")).to_have_attribute("data-shown", "2")
    assert box(page, 0).get_attribute("points") == "60 60 224 69 224 95 60 86"


def test_click_pins_the_line_and_scrolls_the_other_side(show: Show) -> None:
    page = show(at=3)
    page.click("[data-act=fit-width]")
    expect(text(page, 58)).not_to_be_in_viewport()
    page.keyboard.press("0")
    box(page, 58).click()
    expect(text(page, 58)).to_be_in_viewport()
    expect(text(page, 58)).to_have_class(_classes("pinned"))
    page.click("[data-act=fit-width]")
    text(page, 50).click()
    expect(box(page, 50)).to_have_class(_classes("pinned"))
    expect(box(page, 50)).to_be_in_viewport()
    expect(page.locator(".viewer .pinned")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator(".viewer .pinned")).to_have_count(0)


def test_zoom_follows_keys_wheel_and_buttons(show: Show) -> None:
    page = show()
    whole = _view_box(page)
    page.keyboard.press("+")
    page.wait_for_function("width => document.querySelector('svg.sheet').viewBox.baseVal.width < width", arg=whole[2])
    page.keyboard.press("0")
    page.wait_for_function(
        "width => Math.abs(document.querySelector('svg.sheet').viewBox.baseVal.width - width) < 1", arg=whole[2]
    )
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None
    page.mouse.move(canvas["x"] + 40, canvas["y"] + 40)
    page.mouse.wheel(0, -400)
    page.wait_for_function("width => document.querySelector('svg.sheet').viewBox.baseVal.width < width", arg=whole[2])
    zoomed = _view_box(page)
    assert zoomed[0] + zoomed[2] / 2 < whole[0] + whole[2] / 2  # towards the pointer, left above the middle
    page.mouse.down()
    page.mouse.move(canvas["x"] + 10, canvas["y"] + 20, steps=4)
    page.mouse.up()
    page.wait_for_function("x => document.querySelector('svg.sheet').viewBox.baseVal.x > x", arg=zoomed[0])
    expect(page.locator(".viewer .pinned")).to_have_count(0)
    page.click("[data-act=turn]")
    expect(page.locator("svg.sheet > g")).to_have_attribute("transform", "translate(1000 0) rotate(90)")
    expect(page.locator("[data-act=fit-page]")).to_have_attribute("aria-pressed", "true")
    page.click("[data-act=full]")
    page.wait_for_function("document.fullscreenElement?.classList.contains('viewer')")


def test_two_fingers_zoom(show: Show) -> None:
    page = show()
    canvas = page.locator(".canvas").bounding_box()
    assert canvas is not None
    x, y = canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    whole = _view_box(page)
    for kind, apart in (("touchStart", 30), ("touchMove", 60), ("touchMove", 90)):
        points = [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function(
        "width => document.querySelector('svg.sheet').viewBox.baseVal.width < width", arg=whole[2] / 2
    )
    expect(page.locator(".viewer .pinned")).to_have_count(0)


def test_pages_turn_by_key_and_address_and_only_those_are_loaded(show: Show, alice: Visitor) -> None:
    asked: list[str] = []
    alice.page.on("request", lambda request: asked.append(request.url))
    page = show(*[page_of([f"Sheet {number}"]) for number in range(1, 301)], at=7)
    expect(page.locator("#page-text")).to_contain_text("Sheet 7")
    expect(page.locator(".strip a")).to_have_count(300)
    page.keyboard.press("]")
    expect(page.locator("#page-text")).to_contain_text("Sheet 8")
    expect(page).to_have_url(re.compile(r"at=8$"))
    page.reload()
    expect(page.locator("#page-text")).to_contain_text("Sheet 8")
    expect(page.locator(".strip [aria-current]")).to_be_in_viewport(ratio=0.99)
    read = {re.search(r"pages/(\d+)\.json", url) for url in asked} - {None}
    assert {found[1] for found in read if found} == {"7", "8"}
    assert sum(url.endswith(".small.jpg") for url in asked) < 150


def test_marks_are_colour_icon_and_pattern_and_n_goes_on_across_pages(show: Show) -> None:
    page = show()
    expect(page.locator(".strip-checks:visible")).to_have_text(["2 to check", "1 to check"])
    marked = text(page, 2)
    expect(marked.locator("svg.icon")).to_be_visible()
    assert "repeating-linear-gradient" in str(marked.evaluate("line => getComputedStyle(line).backgroundImage"))
    assert "check-stripes" in str(box(page, 2).evaluate("box => getComputedStyle(box).fill"))
    expect(page.locator(".flags svg")).to_have_count(2)
    for shown, line in ((1, 2), (1, 6), (3, 55), (1, 2)):
        page.keyboard.press("n")
        expect(page.locator(".viewer")).to_have_attribute("data-shown", str(shown))
        expect(text(page, line)).to_have_class(_classes("hot"))
        expect(text(page, line)).to_be_in_viewport()
    expect(page.locator(".viewer-status")).to_have_text("Line to check 1 of 2")


def test_only_lines_to_check_are_left_when_filtered(show: Show) -> None:
    page = show()
    page.get_by_role("button", name="Only lines to check (2)").click()
    expect(text(page, 2)).to_be_visible()
    expect(text(page, 6)).to_be_visible()
    expect(text(page, 0)).to_be_hidden()
    expect(text(page, 8)).to_be_hidden()
    expect(box(page, 0)).to_be_hidden()
    page.keyboard.press("]")
    expect(page.locator("#page-text")).to_contain_text("No lines to check on this page.")
    page.get_by_role("button", name="Only lines to check (0)").click()
    expect(text(page, 0)).to_be_visible()


def test_no_score_is_said_when_the_engine_gives_none(show: Show) -> None:
    page = show(page_of(["Plain"], has_scores=False))
    expect(page.get_by_role("button", name="No score from this engine")).to_be_disabled()
    expect(page.locator(".strip-checks:visible")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.locator(".viewer-status")).to_have_text("No lines to check.")


def test_blocks_pages_and_the_job_are_copied_in_each_form(show: Show) -> None:
    page = show()
    page.evaluate("navigator.clipboard.writeText('untouched')")
    text(page, 6).hover()
    page.locator(".block-tools").get_by_role("button", name="TSV").click()
    expect(page.locator(".viewer-status")).to_have_text("Block copied as TSV.")
    # A cell that a spreadsheet would run as a formula is made text; an amount stays an amount.
    assert _clipboard(page) == "Item\tPrice\nLoaf\t7.80\n'=1+1\t-2,50"
    text(page, 0).hover()
    page.keyboard.press("c")
    expect(page.locator(".viewer-status")).to_have_text("Block copied as text.")
    assert _clipboard(page) == "Corner House"
    for copy, expected in (
        ("This page as Markdown", "| Loaf | 7.80 |"),
        ("This page as text", "Loaf\t7.80"),
        ("Whole job as Markdown", "Row 55"),
        ("Whole job as text", "Row 55"),
    ):
        page.locator(".menu summary").click()
        page.get_by_role("button", name=copy).click()
        expect(page.locator(".viewer-status")).to_contain_text(copy.split()[-1])
        assert expected in _clipboard(page)


def test_tables_and_json_have_their_tabs(show: Show) -> None:
    page = show()
    page.get_by_role("tab", name="Table").click()
    pane = page.locator("#table-pane")
    expect(pane.locator("td")).to_have_text(["Item", "Price", "Loaf", "To check: 7.80", "=1+1", "-2,50"])
    pane.locator("[data-line='5']").hover()
    expect(box(page, 5)).to_have_class(_classes("hot"))
    pane.get_by_role("button", name="Copy this block as Markdown").click()
    expect(page.locator(".viewer-status")).to_have_text("Block copied as Markdown.")
    assert _clipboard(page).startswith("| Item | Price |\n| --- | --- |")
    page.keyboard.press("]")
    expect(pane).to_contain_text("No table on this page.")
    page.get_by_role("tab", name="JSON").click()
    assert json.loads(page.locator("#page-json").inner_text())["lines"][0]["text"] == "Second sheet"


def test_everything_is_reached_by_keyboard_alone(show: Show) -> None:
    page = show()
    page.locator(".strip a").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#page-text")).to_contain_text("Row 0")
    page.keyboard.press("[")
    page.keyboard.press("[")
    expect(page.locator("#page-text")).to_contain_text("Corner House")
    for _ in range(9):  # seven tools, the page, its first box
        page.keyboard.press("Tab")
    expect(box(page, 0)).to_be_focused()
    page.keyboard.press("j")
    expect(box(page, 1)).to_be_focused()
    expect(box(page, 1)).to_have_attribute("aria-label", "14 Mill Lane")
    page.keyboard.press("Enter")
    expect(text(page, 1)).to_have_class(_classes("pinned"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("tab", name="Text")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Table")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    for _ in range(3):  # the filter, the copy menu, the line
        page.keyboard.press("Tab")
    expect(text(page, 1)).to_be_focused()
    page.keyboard.press("k")
    expect(text(page, 0)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".viewer-status")).to_have_text("Block copied as text.")
    assert _clipboard(page) == "Corner House"
    page.keyboard.press("?")
    expect(page.locator("dialog.keys-help")).to_contain_text("next line to check")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_keys_stay_letters_when_a_field_has_the_focus(show: Show) -> None:
    page = show()
    page.evaluate("document.querySelector('.job-title').append(document.createElement('input'))")
    page.locator(".job-title input").focus()
    page.keyboard.type("]n?")
    assert page.locator(".job-title input").input_value() == "]n?"
    expect(page.locator(".viewer")).to_have_attribute("data-shown", "1")
    expect(page.locator("dialog")).to_have_count(0)


def test_markup_is_shown_as_written_in_every_tab(show: Show, alice: Visitor) -> None:
    hostile = [ATTACK, "${alert(2)}", "{{constructor}}", "[x](javascript:alert(3))", "'; \" ) } </script>"]
    page = show(page_of([*hostile, (ATTACK, "7"), ("a", "b")], doubtful=[ATTACK]), file_name=f"{ATTACK}.pdf")
    for tab in ("Text", "Table", "JSON", "Code"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(f"#{tab.lower()}-pane")).to_contain_text("<img src=x onerror")
    page.get_by_role("tab", name="Text").click()
    for line, written in enumerate(hostile):
        expect(text(page, line)).to_contain_text(written)
        text(page, line).hover()
    page.keyboard.press("j")
    expect(page.locator("figcaption")).to_have_text(f"{ATTACK}.pdf, page 1")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="This page as Markdown").click()
    expect(page.locator(".viewer-status")).to_have_text("Page copied as Markdown.")
    assert "\\<img" in _clipboard(page)
    assert page.locator("img[src=x], .viewer script").count() == 0
    assert not alice.alerts
    assert not alice.faults


def test_page_opens_by_itself_when_it_is_read(show: Show, portal: RunningPortal) -> None:
    page = show(FIRST, None, at=2)
    expect(page.locator("#text-pane")).to_contain_text("being read")
    expect(page.locator(".no-image")).to_be_visible()
    job_id = page.url.split("job=")[1].split("&")[0]
    finish_page(portal.data_dir, job_id, 2, SECOND)
    expect(page.locator("#page-text")).to_contain_text("All is well", timeout=10_000)
    expect(page.locator(".strip a").nth(1)).to_contain_text("done")


def test_code_runs_as_shown_with_a_real_key(show: Show, portal: RunningPortal, tmp_path: Path) -> None:
    name = 'it\'s "my" scan; $(1).png'
    page = show(FIRST, file_name=name)
    tenant = page.locator("#tenant-name").inner_text()
    key = portal.command("admin", "create-key", "--tenant", tenant, "--scopes", "ocr,read").strip()
    (tmp_path / name).write_bytes(page_image("Total 27.09 EUR"))
    page.get_by_role("tab", name="Code").click()
    code = {name: page.locator(f"#code-{name}").inner_text() for name in ("curl", "python", "javascript")}
    assert key not in page.content()

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    submitted, _, fetched = run("bash", "-c", code["curl"].replace("your-api-key", key)).partition("Corner House")
    assert '"state":"succeeded"' in submitted.replace(" ", "")
    assert "Thank you" in fetched
    assert "27.09" in run(sys.executable, "-c", code["python"].replace("your-api-key", key))
    node = shutil.which("node")
    if node:
        script = code["javascript"].replace("your-api-key", key)
        assert "27.09" in run(node, "--input-type=module", "--eval", script)


@pytest.mark.parametrize("width", [1280, 390])
def test_viewer_is_accessible_and_fits(show: Show, width: int) -> None:
    page = show()
    page.set_viewport_size({"width": width, "height": 844})
    text(page, 2).click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.wait_for_function("isDark => document.body.classList.contains('dark') === isDark", arg=scheme == "dark")
        is_thorough = (scheme == "light") is (width == 1280)
        for tab in ("Table", "Code", "JSON", "Text") if is_thorough else ("Text",):
            page.get_by_role("tab", name=tab).click()
            assert not _grave_findings(page), (scheme, tab)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width == 390:
        expect(page.get_by_role("button", name="Result", exact=True)).to_have_attribute("aria-pressed", "true")
        page.locator(".sides").get_by_role("button", name="Page").click()
        expect(box(page, 2)).to_be_in_viewport()
        expect(page.locator("#page-text")).to_be_hidden()
        assert not _grave_findings(page)


def _grave_findings(page: Page) -> list[tuple[str, list[str]]]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        (rule["id"], [node["html"] for node in rule["nodes"]])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]
