"""Fields in a real Chromium: the form with its templates, the review beside the page, a correction, the table."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select

from models import AuditEntry
from models import Page as PageRow
from portal.db import Database
from portal.domain import FieldSpec, FieldType
from portal.page_text import FieldValue
from tests.conftest import RunningPortal
from tests.ui.conftest import ATTACK, CHOOSE_FILES, Visitor, page_image, register
from tests.ui.stored_jobs import ask_fields, page_of, store_job

SPECS = (
    FieldSpec("total", FieldType.MONEY, maximum="100"),
    FieldSpec("note"),
    FieldSpec("invoice_number", FieldType.ID, required=True),
    FieldSpec("date", FieldType.DATE),
)
SCAN = page_of([("Total", "900.00 EUR"), f"Note: {ATTACK}", "Date: 3 March 2026"])
SECOND = page_of(["Thank you"])


@pytest.fixture
def alice(portal: RunningPortal, browser: Browser) -> Iterator[Visitor]:
    context = browser.new_context(base_url=portal.url, viewport={"width": 1280, "height": 860})
    yield register(context, portal.url, "Alice")
    context.close()


@pytest.fixture
def review(alice: Visitor, portal: RunningPortal) -> Page:
    """The review of a document of two pages."""
    job_id = store_job(portal.data_dir, alice.email, (SCAN, SECOND), file_name=f"{ATTACK}.pdf")
    ask_fields(portal.data_dir, job_id, SPECS)
    page = alice.open(f"/?job={job_id}")
    page.locator("#field-list .field").first.wait_for()
    return page


def test_a_value_and_its_box_lead_to_each_other(review: Page, alice: Visitor) -> None:
    note = review.locator("[data-field=note] .field-value")
    expect(note).to_have_text(ATTACK)
    note.click()
    expect(review.locator(".boxes polygon.pinned")).to_have_attribute("data-line", "2")
    review.locator(".boxes [data-line='3']").click(force=True)
    expect(review.locator("[data-field=date] .field-value")).to_have_class(re.compile("pinned"))
    expect(review.locator("[data-field=invoice_number]")).to_contain_text("required, but not found")
    assert (alice.alerts, alice.faults, alice.outside) == ([], [], [])


def test_a_value_shows_its_box_when_its_page_was_read_without_places(alice: Visitor, portal: RunningPortal) -> None:
    placeless = replace(SCAN, lines=tuple(replace(line, box=None) for line in SCAN.lines))
    job_id = store_job(portal.data_dir, alice.email, (placeless,), file_name="placeless.png")
    boxed = FieldValue("note", ATTACK, ATTACK, box=(60, 100, 300, 126), how="by the model, seen on the page")
    ask_fields(portal.data_dir, job_id, SPECS, values=[boxed])
    page = alice.open(f"/?job={job_id}")
    note = page.locator("[data-field=note] .field-value")
    expect(page.locator(".boxes polygon")).to_have_count(1)
    note.click()
    expect(page.locator(".boxes polygon.pinned")).to_have_attribute("data-line", "4")
    expect(note).to_have_class(re.compile("pinned"))
    page.get_by_role("tab", name="JSON").click()
    expect(page.locator("#page-json")).to_contain_text("900.00 EUR")
    shown = json.loads(page.locator("#page-json").inner_text())
    assert [line["box"] for line in shown["lines"]] == [None] * len(SCAN.lines)
    assert (alice.alerts, alice.faults, alice.outside) == ([], [], [])


def test_a_correction_is_stored_with_its_original_and_judged(
    review: Page, alice: Visitor, portal: RunningPortal
) -> None:
    total = review.locator("[data-field=total]")
    expect(total.locator(".field-state")).to_have_text("rule failed")
    review.get_by_role("button", name="Correct total").click()
    review.get_by_label("Value of total").fill("ninety")
    review.get_by_role("button", name="Save", exact=True).click()
    expect(total.get_by_role("alert")).to_contain_text("'ninety' is no amount.")
    expect(review.get_by_label("Value of total")).to_have_value("ninety")
    expect(review.get_by_label("Value of total")).to_be_focused()
    review.get_by_label("Value of total").fill("90,00 €")
    review.get_by_label("Value of total").press("Enter")
    expect(total.locator(".field-value")).to_have_text("90.00 EUR")
    expect(total.locator(".field-state")).to_have_text("checked")
    expect(total).to_contain_text("read as: 900.00")
    review.locator("[data-field=invoice_number] .field-value").click()
    review.get_by_label("Value of invoice number").fill("RE-17")
    review.get_by_label("Value of invoice number").press("Enter")
    expect(review.locator("[data-field=invoice_number] .field-value")).to_have_text("RE-17")
    review.get_by_role("button", name="date is right").click()
    expect(review.locator("[data-field=date] .field-state")).to_have_text("checked")
    review.reload()
    expect(total.locator(".field-value")).to_have_text("90.00 EUR")
    assert _stored(portal, alice.email) == 3


def _stored(portal: RunningPortal, email: str) -> int:
    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    try:
        with database.reading() as session:
            corrected = (AuditEntry.action == "field.corrected", AuditEntry.actor == email)
            entries = session.scalars(select(AuditEntry).where(*corrected)).all()
            [fields] = session.scalars(
                select(PageRow.fields).where(PageRow.job_id == entries[0].target, PageRow.position == 1)
            )
    finally:
        database.dispose()
    assert fields is not None
    assert fields[0]["original"] == {"value": "900.00", "raw": "900.00 EUR", "currency": "EUR"}
    return len(entries)


@pytest.mark.parametrize("width", [1280, 390])
def test_review_is_accessible_and_fits(review: Page, width: int) -> None:
    review.set_viewport_size({"width": width, "height": 860})
    for scheme in ("light", "dark"):
        review.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        review.wait_for_function("isDark => document.body.classList.contains('dark') === isDark", arg=scheme == "dark")
        assert _grave_findings(review) == []
        assert review.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_fields_of_several_jobs_are_saved_as_one_table(alice: Visitor, portal: RunningPortal) -> None:
    for name in ("first.png", "second.png"):
        ask_fields(portal.data_dir, store_job(portal.data_dir, alice.email, (SCAN,), file_name=name), SPECS)
    store_job(portal.data_dir, alice.email, (SECOND,), file_name="letter.png")
    page = alice.open("/history")
    page.locator(".select-all").check()
    note = page.locator("#bulk-left-out")
    expect(note).to_be_hidden()
    page.select_option("#bulk-format", "fields")
    expect(note).to_have_text("1 job of other tasks left out")
    expect(page.locator("#bulk-export")).to_have_text("Export (2)")
    with page.expect_download() as download:
        page.click("a#bulk-export")
    assert re.fullmatch(r"fields-[0-9-]{10}\.csv", download.value.suggested_filename)
    rows = list(csv.DictReader(download.value.path().read_text("utf-8-sig").splitlines()))
    assert [(row["file"], row["total"], row["to_check"]) for row in rows] == [
        ("second.png", "900.00", "yes"),
        ("first.png", "900.00", "yes"),
    ]
    page.set_viewport_size({"width": 390, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert _grave_findings(page) == []
    page.locator(".job-entry", has_text="first.png").locator("input").uncheck()
    page.locator(".job-entry", has_text="second.png").locator("input").uncheck()
    expect(page.locator("#bulk-format")).to_have_value("txt")
    assert (alice.alerts, alice.faults, alice.outside) == ([], [], [])


def _open_fields(alice: Visitor) -> Page:
    page = alice.open("/")
    page.locator("label.task", has_text="Fields").click()
    page.locator("#template").wait_for()
    return page


def _run(page: Page) -> str:
    """Reads a page with the form as it stands; gives the curl line that says what was asked."""
    page.set_input_files(CHOOSE_FILES, {"name": "a.png", "mimeType": "image/png", "buffer": page_image("Order 17")})
    page.click("#run")
    page.wait_for_url("**/?job=*")
    page.locator(".job-progress[data-state=succeeded]").wait_for()
    page.click("#tab-code")
    return page.locator("#code-curl").inner_text()


def test_a_template_is_edited_saved_run_and_gone_when_it_is_deleted(alice: Visitor) -> None:
    page = _open_fields(alice)
    page.select_option("#template", "")
    page.locator(".field-row input").fill("delivery date")
    expect(page.locator("#fields-summary")).to_have_text("1 field: delivery date")
    page.get_by_role("button", name="Add a field").click()
    page.locator(".field-row input").nth(1).fill(ATTACK)
    page.locator("#template-name").fill("notes")
    page.get_by_role("button", name="Save as template").click()
    expect(page.locator(".fields-told")).to_have_text("Saved as notes, version 1.")
    expect(page.locator("#template")).to_have_value("notes")
    page.get_by_role("button", name="JSON", exact=True).click()
    rows = json.loads(page.locator(".fields-editor textarea").input_value())
    assert [row["name"] for row in rows] == ["delivery date", ATTACK]
    page.locator("#template-name").fill("../x")
    page.get_by_role("button", name="Save as template").click()
    expect(page.locator(".fields-told")).to_contain_text("Choose another name.")
    assert _grave_findings(page) == []
    asked = _run(page)
    assert "--form-string template=notes" in asked
    assert "result?format=json" in asked

    page = _open_fields(alice)
    expect(page.locator("#template")).to_have_value("notes")  # remembered, although it is offered only later
    expect(page.locator("#fields-summary")).to_contain_text("2 fields: delivery date, ")
    page.locator(".fields-form > details > summary").click()
    page.get_by_role("button", name="Delete template").click()
    expect(page.locator(".fields-told")).to_have_text("Deleted notes.")
    expect(page.locator("#template")).to_have_value("")
    expect(page.locator("#fields-summary")).to_contain_text("2 fields: delivery date, ")
    page = _open_fields(alice)
    expect(page.locator(".fields-told")).to_have_text("The template notes was deleted. Choose another one.")
    expect(page.locator("#template")).to_have_value("receipt")
    assert (alice.alerts, alice.faults, alice.outside) == ([], [], [])


def test_json_is_what_is_shown_saved_and_read_until_rows_are_used_instead(alice: Visitor) -> None:
    page = _open_fields(alice)
    page.locator(".fields-form > details > summary").click()
    page.get_by_role("button", name="JSON", exact=True).click()
    page.locator(".fields-editor textarea").fill('{"properties": {"iban": {"type": "string"}}}')
    expect(page.locator("#fields-summary")).to_have_text("1 field: iban (as the JSON Schema says)")
    expect(page.locator("#template")).to_have_value("")
    page.get_by_role("button", name="Rows", exact=True).click()
    expect(page.locator(".field-row")).to_have_count(0)  # none that would say nothing
    page.locator("#template-name").fill("accounts")
    page.get_by_role("button", name="Save as template").click()
    expect(page.locator("#template")).to_have_value("accounts")
    expect(page.locator(".field-row input")).to_have_value("iban")
    expect(page.locator("#fields-summary")).to_have_text("1 field: iban")

    page.get_by_role("button", name="JSON", exact=True).click()
    page.locator(".fields-editor textarea").fill("{")
    expect(page.locator("#fields-summary")).to_have_text("The JSON is not valid yet.")
    page.get_by_role("button", name="Save as template").click()
    expect(page.locator(".fields-told")).to_contain_text("The fields are not valid JSON.")
    page.get_by_role("button", name="Rows", exact=True).click()
    page.get_by_role("button", name="Use rows instead").click()
    expect(page.locator("#fields-summary")).to_have_text("1 field: iban")
    page.get_by_role("button", name="Add a field").click()
    page.locator(".field-row input").nth(1).fill("order number")
    expect(page.locator("#fields-summary")).to_have_text("2 fields: iban, order number (changed)")
    asked = _run(page)
    assert "order number" in asked
    assert "template=" not in asked
    assert (alice.alerts, alice.faults) == ([], [])


def _grave_findings(page: Page) -> list[tuple[str, list[str]]]:
    violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
    grave = [rule for rule in violations if rule["impact"] in ("serious", "critical")]
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in grave]
