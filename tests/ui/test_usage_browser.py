"""The price before a run, and the Usage page, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select

from models import Job, Member, QuotaRequest, Tenant
from portal.db import Database
from tests.conftest import RunningPortal
from tests.ledger import limit_tenant
from tests.ui.conftest import ATTACK, CHOOSE_FILES, Visitor, long_scan, page_image
from tests.ui.test_accessibility import ALL, SMALL_TARGETS, findings

SignUp = Callable[[str], Visitor]
READ_MS = 60_000


@pytest.fixture
def stored(portal: RunningPortal) -> Iterator[Database]:
    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    yield database
    database.dispose()


def _tenant_of(database: Database, visitor: Visitor) -> str:
    with database.reading() as session:
        return session.scalars(select(Member.tenant_id).where(Member.email == visitor.email)).one()


def _file(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "mimeType": "image/tiff", "buffer": content}


def _assert_sound(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("h1").count() == 1
    assert page.evaluate(SMALL_TARGETS) == []
    assert findings(page, ALL) == []


def test_price_leads_through_a_choice_to_a_run_and_its_receipt(sign_up: SignUp, stored: Database) -> None:
    alice = sign_up("Alice")
    tenant_id = _tenant_of(stored, alice)
    limit_tenant(stored, tenant_id, pages_per_day=2)
    page = alice.open("/")
    price = page.locator("#cost .price")
    scan = _file(f"{ATTACK}.tiff", long_scan(3, "Sheet 1"))
    page.set_input_files(CHOOSE_FILES, scan)
    expect(price).to_contain_text("2 pages left today, this file has 3.", timeout=READ_MS)
    expect(price).to_contain_text("Resets 00:00 (UTC).")
    _assert_sound(page)
    with stored.reading() as session:
        assert session.scalars(select(Job).where(Job.tenant_id == tenant_id)).all() == []
    page.get_by_role("button", name="Choose pages").click()
    expect(page.locator("#page-range :is(input, textarea)")).to_be_focused()
    page.get_by_role("button", name="Read only the first 2").click()
    expect(page.locator("#page-range :is(input, textarea)")).to_have_value("1-2")
    expect(price).to_contain_text("2 pages · 2 of 2 left today", timeout=READ_MS)
    page.click("#run")
    page.wait_for_url("**/?job=*", timeout=READ_MS)
    expect(page.locator(".receipt summary")).to_have_text("Receipt: 2 pages reserved, 2 charged", timeout=READ_MS)
    page.locator(".receipt summary").click()
    expect(page.locator(".receipt li")).to_have_text(["2 set aside when the job was submitted", "2 read"])

    alice.open("/")
    expect(page.locator(".quota-line")).to_contain_text("All of today's pages are used: 2 of 2.")
    page.set_input_files(CHOOSE_FILES, scan)
    expect(price).to_contain_text("0 pages left today, this file has 1 not read before.", timeout=READ_MS)
    page.get_by_role("button", name="Read only the first 2").click()
    expect(price).to_have_text("2 pages, read before: free", timeout=READ_MS)
    page.get_by_label("Read identical pages again, and charge them").check()  # a choice that the price depends on
    expect(price).to_contain_text("0 pages left today, this choice has 2.", timeout=READ_MS)

    alice.open("/")
    page.set_input_files(CHOOSE_FILES, [_file("a.tiff", page_image("a")), _file("b.tiff", page_image("b"))])
    expect(price).to_contain_text("0 pages left today, these files have 2.", timeout=READ_MS)
    page.click("#run")
    expect(page.locator("#notice")).to_contain_text(
        "0 of 2 pages are left today, and this needs at least 2.", timeout=READ_MS
    )
    price.get_by_role("link", name="Ask for more").click()
    page.wait_for_url("**/usage?ask=pages_per_day#ask")
    assert not alice.alerts
    assert not alice.faults
    assert not alice.outside


@pytest.mark.parametrize("width", [1280, 390])
def test_usage_page_shows_what_was_used_and_takes_a_request(sign_up: SignUp, stored: Database, width: int) -> None:
    alice = sign_up("Alice")
    tenant_id = _tenant_of(stored, alice)
    limit_tenant(stored, tenant_id, pages_per_day=2)
    alice.submit(_file(f"{ATTACK}.tiff", page_image("Berth 12")))
    expect(alice.page.locator(".receipt summary")).to_be_visible(timeout=READ_MS)
    alice.page.set_viewport_size({"width": width, "height": 844})
    page = alice.open("/usage")
    expect(page.locator(".usage-sentence")).to_contain_text("1 of 2 pages today, resets in")
    expect(page.locator(".limit[data-nearest]")).to_contain_text("binds first")
    expect(page.locator(".receipts tbody tr")).to_have_count(1)
    expect(page.locator(".receipts .work a")).to_have_text(f"{ATTACK}.tiff")
    page.locator(".as-table summary").click()
    expect(page.locator(".as-table tbody tr").first).to_contain_text("1")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.wait_for_function("isDark => document.body.classList.contains('dark') === isDark", arg=scheme == "dark")
        _assert_sound(page)
    with page.expect_download() as download:
        page.click("#usage-csv")
    assert ATTACK not in download.value.path().read_text()
    page.locator(".receipts thead a", has_text="Charged").click()
    page.wait_for_url("**/usage?sort=charged")
    expect(page.locator(".receipts [aria-sort=descending]")).to_have_text("Charged")

    page.fill("#ask input[name=wanted]", "1")
    page.fill("#ask textarea", f"The archive {ATTACK}")
    page.click("#send-ask")
    expect(page.locator("#usage-notice .notice")).to_contain_text("1 is not more than the 2 there are.")
    page.fill("#ask input[name=wanted]", "500")
    page.click("#send-ask")
    expect(page.locator(".asked li")).to_contain_text(re.compile(r"Waiting for the admin.*500 pages", re.DOTALL))
    with stored.transaction() as session:
        asked = session.scalars(select(QuotaRequest).where(QuotaRequest.tenant_id == tenant_id)).one()
        asked.state, asked.answer = "granted", "Until Friday."
    page.reload()
    expect(page.locator(".asked li")).to_contain_text("The admin: Until Friday.")

    expect(page.locator(".quota-line")).to_contain_text("50 % of today's pages are used: 1 of 2.")
    page.get_by_role("button", name="Close this notice").click()
    expect(page.locator(".quota-line")).to_have_count(0)
    alice.open("/history")
    page.wait_for_selector(".entry")
    expect(page.locator(".quota-line")).to_have_count(0)

    alice.open("/usage")
    page.select_option("#usage-zone select", "Asia/Tokyo")
    page.click("#save-zone")
    expect(page.locator("#usage-zone b")).to_have_text("Asia/Tokyo")
    with stored.reading() as session:
        assert session.get_one(Tenant, tenant_id).time_zone == "Asia/Tokyo"
    assert not alice.alerts
    assert not alice.faults
    assert not alice.outside


def test_page_says_why_new_work_is_stopped(sign_up: SignUp, stored: Database) -> None:
    alice = sign_up("Alice")
    tenant_id = _tenant_of(stored, alice)
    with stored.transaction() as session:
        tenant = session.get_one(Tenant, tenant_id)
        tenant.state, tenant.state_reason = "no_new_jobs", f"The invoice is open {ATTACK}"
    page = alice.open("/")
    expect(page.locator(".standing")).to_contain_text(f"says: The invoice is open {ATTACK}. What is there can still")
    expect(page.locator(".quota-line")).to_have_count(0)  # it is said once
    page.set_input_files(CHOOSE_FILES, _file("a.tiff", page_image("a")))
    expect(page.locator("#cost .price")).to_contain_text(
        f"The admin's reason: The invoice is open {ATTACK}. Ask the portal's admin.", timeout=READ_MS
    )
    page.click("#run")
    expect(page.locator("#notice")).to_contain_text("This tenant may not submit new work at present.")
    assert not alice.alerts
    assert not alice.faults
