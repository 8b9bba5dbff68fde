"""History and keys in a real Chromium: search, selection, retry, another device, rotation."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.conftest import RunningPortal
from tests.ui.conftest import ATTACK, Visitor, long_scan, page_image
from tests.ui.test_accessibility import ALL, findings

SignUp = Callable[[str], Visitor]
READ_MS = 40_000
PASSWORD = "correct horse battery staple"


TICK_ALL = "document.querySelectorAll('.job-entry input[type=checkbox]').forEach(box => box.checked || box.click())"


def _file(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def _assert_fits_and_is_accessible(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
    assert page.locator("h1").count() == 1, page.url
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.wait_for_function("isDark => document.body.classList.contains('dark') === isDark", arg=scheme == "dark")
        assert not findings(page, ALL), (page.url, scheme)


def _two_frames() -> bytes:
    frames = [Image.open(io.BytesIO(page_image(words))) for words in ("Front side 4711", "Back side 4712")]
    written = io.BytesIO()
    frames[0].save(written, "TIFF", save_all=True, append_images=frames[1:])
    return written.getvalue()


def _cut_short(portal: RunningPortal, visitor: Visitor) -> tuple[str, Path, bytes]:
    """A job whose second page fails; its stored upload, and what that should have been."""
    whole = _two_frames()
    before = set(portal.data_dir.rglob("source"))
    job_id = visitor.submit(_file("delivery note.tiff", whole[:-100_000]))
    [source] = set(portal.data_dir.rglob("source")) - before
    return job_id, source, whole


def test_failed_page_is_read_when_it_is_retried_after_a_look(sign_up: SignUp, portal: RunningPortal) -> None:
    alice = sign_up("Alice")
    job_id, source, whole = _cut_short(portal, alice)
    page = alice.page
    alice.open("/history")
    attention = page.locator("[data-group=attention]")
    expect(attention.locator(".entry")).to_contain_text(
        re.compile(r"delivery note\.tiff.*1 of 2 pages, 1 failed, 1 charged", re.DOTALL), timeout=READ_MS
    )
    attention.locator(".entry-title").click()
    page.wait_for_url(f"**/?job={job_id}")
    expect(page.locator("#retry-job")).to_have_text("Retry 1 failed page")
    page.locator(".strip a").last.click()
    expect(page.locator("#retry-page")).to_be_visible()

    alice.open("/history")
    expect(attention).to_have_count(0)
    page.locator("[data-group=done] [data-action=retry]").click()
    expect(attention.locator(".entry")).to_contain_text("1 failed, 1 charged", timeout=READ_MS)
    source.write_bytes(whole)  # the page fails for what the file is, so only another file lets it be read
    alice.open(f"/?job={job_id}&at=2")
    page.click("#retry-page")
    expect(page.locator("#page-text")).to_contain_text("4712", timeout=READ_MS)
    expect(page.locator(".job-progress")).to_contain_text("2 pages read.")
    alice.open("/history")
    expect(page.locator("[data-group=done] .entry")).to_contain_text("2 of 2 pages, 2 charged")
    assert not alice.faults


def test_jobs_are_found_selected_exported_and_deleted_in_bulk(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    page = alice.page
    for name, words in ((f"{ATTACK}.png", "Invoice 2026"), ("letter.png", "Dear Coolblue")):
        alice.submit(_file(name, page_image(words)))
        expect(page.locator("#page-text")).to_be_visible(timeout=READ_MS)
    alice.open("/history")
    expect(page.locator(".job-entry")).to_have_count(2)
    page.fill("#history-search", "INVOICE 2026")
    expect(page.locator(".entry-title")).to_have_text([f"{ATTACK}.png"])
    page.reload()
    expect(page.locator("#history-search")).to_have_value("INVOICE 2026")
    expect(page.locator(".job-entry")).to_have_count(1)
    page.fill("#history-search", ATTACK.replace("=", "equals"))
    expect(page.locator("#history-list")).to_contain_text("Nothing found")
    page.fill("#history-search", "")
    expect(page.locator(".job-entry")).to_have_count(2)

    page.locator(".select-all").focus()
    page.keyboard.press("Space")
    expect(page.locator("#bulk-count")).to_have_text("2 jobs selected")
    page.set_viewport_size({"width": 390, "height": 844})
    _assert_fits_and_is_accessible(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.select_option("#bulk-format", "markdown")
    with page.expect_download() as download:
        page.click("a#bulk-export")
    with zipfile.ZipFile(download.value.path()) as bundle:
        assert bundle.namelist()[0] == "letter.md"
        assert [b"Coolblue" in bundle.read(name) for name in bundle.namelist()[:2]] == [True, False]
        assert bundle.namelist()[2:] == ["receipt.txt", "receipt.json"]
    page.click("#bulk-delete")
    expect(page.locator("dialog.confirm h2")).to_have_text("Delete 2 jobs?")
    expect(page.locator("dialog.confirm p")).to_contain_text(f"letter.png, {ATTACK}.png: their files")
    page.keyboard.press("Escape")
    page.click("#bulk-clear")
    page.locator(".job-entry", has_text="letter.png").locator("input[type=checkbox]").check()
    page.click("#bulk-delete")
    expect(page.locator("dialog.confirm h2")).to_have_text("Delete letter.png?")
    page.evaluate(TICK_ALL)  # as a redraw may do behind the open dialog
    assert len(page.locator("#bulk-delete").get_attribute("data-target").split(",")) == 2
    page.click("dialog.confirm .danger")
    expect(page.locator(".entry-title")).to_have_text([f"{ATTACK}.png"])
    page.locator(".job-entry input[type=checkbox]").check()
    page.click("#bulk-delete")
    page.click("dialog.confirm .danger")
    expect(page.locator("#history-list")).to_contain_text("Nothing read yet")
    expect(page.locator("#history-bar .bulk")).to_be_hidden()
    assert page.locator("img[src=x]").count() == 0
    assert not alice.alerts
    assert not alice.faults


def test_job_is_followed_on_another_device_until_it_is_cancelled_here(
    sign_up: SignUp, portal: RunningPortal, browser: Browser
) -> None:
    alice = sign_up("Alice")
    job_id = alice.submit(_file("sheets.tiff", long_scan(300, *["Sheet 1"] * 9)))
    context = browser.new_context(base_url=portal.url, viewport={"width": 390, "height": 844})
    phone = context.new_page()
    phone.goto("/login")
    phone.fill("#email", alice.email)
    phone.fill("#password", PASSWORD)
    phone.click("button[type=submit]")
    phone.wait_for_selector("#tenant-name", state="attached")
    phone.goto("/history")
    phone.locator("[data-group=running] .entry-title").click()
    phone.wait_for_url(f"**/?job={job_id}")
    alice.page.reload()
    for page in (phone, alice.page):
        expect(page.locator("#cancel-job")).to_be_visible()
        expect(page.locator("#page-text")).to_contain_text("Sheet 1", timeout=READ_MS)
    page = alice.open("/history")
    page.locator("[data-group=running] .select-all").check()
    page.click("#bulk-cancel")
    expect(page.locator("[data-group=done] .badge")).to_have_text("Cancelled")
    expect(phone.locator(".job-progress")).to_contain_text("Cancelled.")
    expect(phone.locator("#page-text")).to_contain_text("Sheet 1")
    context.close()
    assert not alice.faults


def test_old_and_new_key_work_until_the_old_ends_when_rotated(sign_up: SignUp, portal: RunningPortal) -> None:
    alice = sign_up("Alice")
    page = alice.open("/keys")
    page.fill("#key-name input", "importer")
    page.click("#create-key")
    old = page.locator("#key-value").inner_text()
    page.click("[data-action=rotate]")
    expect(page.locator("dialog.confirm h2")).to_have_text("Replace importer?")
    page.get_by_label("The old key ends").select_option("1h")
    page.click("dialog.confirm .primary")
    expect(page.locator("#key-value")).not_to_have_text(old)
    new = page.locator("#key-value").inner_text()
    expect(page.locator(".badge")).to_have_text(["Active", "Being replaced"])
    expect(page.locator(".key-entry").last).to_contain_text("ends 20")

    def status(key: str) -> int:
        return httpx.get(f"{portal.url}/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code

    assert (status(old), status(new)) == (200, 200)
    page.locator("[data-action=revoke]").last.click()
    page.click("dialog.confirm .danger")
    expect(page.locator(".badge")).to_have_text(["Active", "Revoked"])
    assert (status(old), status(new)) == (401, 200)
    assert not alice.faults
