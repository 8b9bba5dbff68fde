"""How files come into the Workspace: dropped, pasted, chosen, taken out again; samples; what is remembered; outages."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import Page, expect

from portal.db import Database
from portal.ui import words
from tests.conftest import RunningPortal
from tests.ledger import page_ends
from tests.ui.conftest import ATTACK, CHOOSE_FILES, Visitor, page_image

SignUp = Callable[[str], Visitor]
READ_MS = 40_000
# Browsers let no script fill the clipboard or drag a file: the events are made by hand.
EVENT = """([kind, name, type, bytes]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([new Uint8Array(bytes)], name, { type }));
  const options = { bubbles: true, cancelable: true, dataTransfer: carried, clipboardData: carried };
  const event = kind === 'paste' ? new ClipboardEvent(kind, options) : new DragEvent(kind, options);
  document.body.dispatchEvent(event);
}"""
COUNT_CLICKS = """
  window.counts = 0;
  document.getElementById('price-files').addEventListener('click', () => (window.counts += 1));
"""


def _happens(page: Page, kind: str, name: str, content: bytes = b"x", media_type: str = "image/png") -> None:
    page.evaluate(EVENT, [kind, name, media_type, list(content)])


def test_files_are_listed_and_taken_out_when_dropped_pasted_and_chosen(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    page = alice.open("/")
    scan = page_image("Berth 12")
    _happens(page, "dragenter", "scan.png")
    expect(page.locator(".drop-veil")).to_have_text("Drop the files anywhere to add them")
    _happens(page, "drop", f"{ATTACK}.png", scan)
    expect(page.locator(".drop-veil")).to_have_count(0)
    _happens(page, "paste", "image.png", scan)
    page.set_input_files(
        CHOOSE_FILES,
        [
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"not a scan"},
            {"name": "empty.pdf", "mimeType": "application/pdf", "buffer": b""},
        ],
    )
    rows = page.locator("#drop .file")
    expect(rows).to_have_count(4)
    expect(rows.nth(0).locator("b")).to_have_text(f"{ATTACK}.png")
    expect(rows.nth(0).locator("small")).to_have_text(words.byte_count(len(scan)))
    assert rows.nth(0).locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1400
    expect(rows.nth(1).locator("b")).to_contain_text("Pasted image 20")
    expect(rows.nth(3)).to_contain_text("empty.pdf is empty. Save it again, then add it again. This file is left out.")
    page.click("#run")
    expect(page.locator("#notice")).to_contain_text("notes.txt")
    page.get_by_role("button", name="Remove notes.txt").click()
    page.get_by_role("button", name="Remove empty.pdf").click()
    expect(rows).to_have_count(2)
    page.click("#run")
    page.wait_for_url("**/?job=*")
    expect(page.locator(".job-title h1")).to_have_text(f"{ATTACK}.png and 1 more file")

    _happens(page, "paste", "image.png", scan)  # while a job is shown: back to the form, whose list is empty again
    expect(page.get_by_role("heading", level=1)).to_have_text("Read a scan")
    expect(rows).to_have_count(1)
    assert not alice.alerts
    assert not alice.faults
    assert not alice.outside


def test_a_sample_is_read_with_a_click_and_counts_no_page(sign_up: SignUp, portal: RunningPortal) -> None:
    alice = sign_up("Alice")
    page = alice.open("/")
    page.get_by_role("button", name="Letter French").click()
    expect(page.locator(".job-progress")).to_have_text("1 page read. A sample: it costs nothing.", timeout=READ_MS)
    expect(page.locator("p.off-screen[role=status]").last).to_have_text("1 page read. A sample: it costs nothing.")
    expect(page.locator("#page-text")).to_contain_text("Chère Madame Lefèvre")
    expect(page.locator("#page-text")).to_have_attribute("lang", "fr")
    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    with database.reading() as session:
        job_id = page.url.split("job=")[1]
        ends = page_ends(session, job_id)
    database.dispose()
    assert ends == [("sample", 0)]


def test_choices_and_theme_are_kept_and_pages_and_files_are_not(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    page = alice.open("/")
    page.get_by_role("button", name="Theme: as the system").click()
    page.set_input_files(CHOOSE_FILES, {"name": "a.png", "mimeType": "image/png", "buffer": page_image("a")})
    page.fill("#page-range input", "1")
    page.click("#run")
    page.wait_for_url("**/?job=*")
    alice.open("/")
    kept = page.evaluate("Object.fromEntries(Object.entries(localStorage))")
    assert kept.pop("portal.theme") == "light"
    [(place, choices)] = kept.items()
    assert place.startswith("portal.choices.mem_")
    assert json.loads(choices)["task"] == "extract"
    assert page.locator("#page-range input").input_value() == ""
    assert page.locator("#drop .file").count() == 0
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    page.goto("/login")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_the_page_goes_on_by_itself_when_the_portal_comes_back(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    page = alice.open("/")
    page.set_input_files(CHOOSE_FILES, {"name": "a.png", "mimeType": "image/png", "buffer": page_image("Berth 12")})
    expect(page.locator("#drop .file[data-state=ready]")).to_have_count(1)
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('offline'))")
    expect(page.locator(".connection")).to_be_visible()
    expect(page.locator(".connection")).to_contain_text("Reconnecting…")
    expect(page.locator("p.off-screen[role=status]").last).to_contain_text("Reconnecting…")
    page.context.set_offline(False)
    expect(page.locator(".connection")).to_be_hidden()
    expect(page.locator("#drop .file[data-state=ready]")).to_have_count(1)
    page.click("#run")
    expect(page.locator("#page-text")).to_contain_text("Berth", timeout=READ_MS)


def test_files_are_counted_anew_only_when_the_form_of_fields_is_left(sign_up: SignUp) -> None:
    alice = sign_up("Alice")
    page = alice.open("/")
    page.locator("#task").get_by_text("Fields", exact=True).click()
    page.set_input_files(CHOOSE_FILES, {"name": "a.png", "mimeType": "image/png", "buffer": page_image("a")})
    expect(page.locator("#cost .price")).to_contain_text("1 page", timeout=READ_MS)
    page.evaluate(COUNT_CLICKS)
    page.select_option("#template", "invoice")
    page.wait_for_function("counts === 1")  # nothing is being written: at once
    page.get_by_text("Edit fields").click()
    page.click("#add-field")
    written = page.locator(".fields-editor li:last-of-type input").first
    written.press_sequentially("berth", delay=300)  # longer than the pause after which the files were opened
    expect(page.locator("#fields-summary")).to_contain_text("(changed)")
    expect(written).to_be_focused()
    page.wait_for_timeout(600)
    assert page.evaluate("counts") == 1
    page.locator("#page-range input").focus()
    page.wait_for_function("counts === 2")
    assert (alice.alerts, alice.faults) == ([], [])
