"""The pages in a real Chromium against a whole running portal: what a person does, from sign-up to sign-out."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.conftest import SHARED_CASES, RunningPortal
from tests.ui.conftest import ATTACK, CHOOSE_FILES, Visitor, page_image

SignUp = Callable[[str], Visitor]
READ_MS = 40_000


@pytest.fixture
def scan(tmp_path: Path) -> tuple[Path, str]:
    """A scan and a word on it: a shared one where the folder is there, else our own."""
    shared = SHARED_CASES / "scans" / "nl_invoice_coolblue.jpg"
    if shared.is_file():
        return shared, "Coolblue"
    path = tmp_path / "letter.png"
    path.write_bytes(page_image("Dear Coolblue team,", "please send the invoice again."))
    return path, "Coolblue"


def test_text_opens_and_survives_a_reload_when_a_scan_is_run(
    sign_up: SignUp, scan: tuple[Path, str], portal: RunningPortal
) -> None:
    path, word = scan
    alice = sign_up("Alice")
    job_id = alice.submit(path)
    expect(alice.page.locator("#page-text")).to_contain_text(word, timeout=READ_MS)
    expect(alice.page.locator(".job-progress")).to_contain_text("1 page read.", timeout=READ_MS)
    expect(alice.page.locator("#cancel-job")).to_have_count(0)

    alice.page.reload()
    expect(alice.page.locator("#page-text")).to_contain_text(word)
    expect(alice.page.locator(".job-title h1")).to_have_text(path.name)
    expect(alice.page).to_have_title(f"{path.name} · OCR Portal")
    image = alice.page.locator("svg.sheet image")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.getBBox().width") > 300
    assert alice.page.request.get(str(image.get_attribute("href"))).headers["content-type"] == "image/jpeg"

    with alice.page.expect_download() as download:
        alice.page.click("#download-json")
    result = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert word in json.dumps(result, ensure_ascii=False)
    with alice.page.expect_download() as download:
        alice.page.click("#download-txt")
    assert word in download.value.path().read_text(encoding="utf-8")

    _assert_stranger_finds_nothing(sign_up("Charlie"), job_id)
    other_tab = alice.page.context.new_page()
    other_tab.goto("/history")
    other_tab.wait_for_selector(".entry")
    alice.page.click("#sign-out")
    alice.page.wait_for_url(re.compile("/login"))
    other_tab.wait_for_url("**/login?next=%2Fhistory")
    assert alice.page.request.get(f"/files/jobs/{job_id}/result?format=txt", max_redirects=0).status in (303, 401)
    assert not alice.faults
    assert not alice.outside


def _assert_stranger_finds_nothing(charlie: Visitor, job_id: str) -> None:
    page = charlie.open(f"/?job={job_id}")
    expect(page.locator("#notice")).to_contain_text("Job not found")
    expect(page.locator("#run")).to_be_visible()
    for name in ("result?format=txt", "pages/1.jpg", "pages/1.small.jpg", "pages/1.json"):
        file = f"/files/jobs/{job_id}/{name}"
        assert page.request.get(file).status == 404
    charlie.open("/history")
    expect(page.locator("#history-list")).to_contain_text("Nothing read yet")


def test_markup_is_shown_as_written_when_scan_file_and_key_carry_an_attack(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    written = "${alert(2)} {{constructor}}"
    scan = page_image("Invoice from the cellar", ATTACK, written)
    alice.submit({"name": f"{ATTACK}.png", "mimeType": "image/png", "buffer": scan})
    text = alice.page.locator("#page-text")
    expect(text).to_contain_text("onerror", timeout=READ_MS)
    expect(text).to_contain_text("<img")
    expect(alice.page.locator(".job-title h1")).to_have_text(f"{ATTACK}.png")
    alice.page.get_by_role("tab", name="JSON").click()
    expect(alice.page.locator("#page-json")).to_contain_text("onerror")
    alice.open("/history")
    expect(alice.page.locator(".entry-title")).to_have_text(f"{ATTACK}.png")
    alice.page.click("[data-action=delete]")
    expect(alice.page.locator("dialog.confirm h2")).to_have_text(f"Delete {ATTACK}.png?")
    alice.page.click("dialog.confirm .danger")
    expect(alice.page.locator("#history-list")).to_contain_text("Nothing read yet")
    alice.open("/keys")
    alice.page.fill("#key-name input", ATTACK)
    alice.page.click("#create-key")
    expect(alice.page.locator(".new-key h2")).to_have_text(ATTACK)
    expect(alice.page.locator(".entry-title")).to_have_text(ATTACK)
    assert alice.page.locator("img[src=x]").count() == 0
    assert not alice.alerts
    assert not alice.faults


def test_the_printed_command_runs_until_the_key_is_revoked(
    sign_up: SignUp, portal: RunningPortal, tmp_path: Path
) -> None:
    alice = sign_up("Alice")
    page = alice.open("/keys")
    page.fill("#key-name input", "importer")
    page.click("#create-key")
    key = page.locator("#key-value").inner_text()
    command = page.locator("#key-curl").inner_text()
    (tmp_path / "scan.png").write_bytes(page_image("Total 27.09 EUR"))
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=True)
    assert json.loads(done.stdout)["state"] == "succeeded"

    page.click("#key-saved")
    expect(page.locator(".new-key")).to_have_count(0)
    assert key not in page.content()
    alice.open("/history")
    expect(page.locator(".entry-facts")).to_contain_text("API key")

    alice.open("/keys")
    expect(page.locator(".entry-state")).to_contain_text("used just now from 127.0.0.1")
    page.click("[data-action=revoke]")
    expect(page.locator("dialog.confirm")).to_contain_text("It was used just now")
    page.click("dialog.confirm .danger")
    expect(page.locator(".entry-state")).to_contain_text("Revoked")
    headers = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{portal.url}/v1/jobs", headers=headers).status_code == 401


def test_pages_already_read_stay_when_a_job_is_cancelled(sign_up: SignUp, tmp_path: Path) -> None:
    alice = sign_up("Alice")
    files = []
    for number in range(1, 31):
        files.append(tmp_path / f"page-{number}.png")
        files[-1].write_bytes(page_image(*(f"Line {line} of sheet {number}" for line in range(1, 9))))
    alice.submit(*files)
    page = alice.page
    expect(page.locator("#page-text")).to_contain_text("sheet 1", timeout=READ_MS)
    page.click("#cancel-job")
    expect(page.locator(".job-progress")).to_contain_text("Cancelled.")
    expect(page.locator("#page-text")).to_contain_text("sheet 1")
    page.locator(".strip a").last.click()
    expect(page.locator("figcaption")).to_have_text("page-30.png, page 1")
    expect(page.locator("#text-pane")).to_contain_text("not charged")
    alice.open("/history")
    expect(page.locator(".entry")).to_contain_text(re.compile(r"Cancelled\D*[12]?\d of 30 pages"))


def test_the_file_is_named_with_a_remedy_when_it_is_refused(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    page = alice.open("/")
    page.set_input_files(
        CHOOSE_FILES, [{"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 no"}]
    )
    page.locator("#drop .file").wait_for()
    page.click("#run")
    expect(page.locator("#notice")).to_contain_text("broken.pdf")
    expect(page.locator("#run")).to_be_enabled()
    assert "job=" not in page.url
    page.fill("#page-range input", "3-1")
    page.click("#run")
    expect(page.locator("#notice")).to_contain_text("3-1")
    expect(page.get_by_role("radio", name=re.compile("Translate"))).to_be_disabled()
