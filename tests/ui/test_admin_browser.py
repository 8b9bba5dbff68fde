"""The Admin page in a browser: a limit is seen before it is set, set and undone; the audit log is filtered."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.conftest import RunningPortal
from tests.ui.conftest import Visitor, watch

TABS = ("tenants", "requests", "plans", "dry-run", "audit", "overview")


@pytest.fixture
def admin(portal: RunningPortal, browser: Browser) -> Iterator[Visitor]:
    """The portal's admin, signed in."""
    context = browser.new_context(base_url=portal.url, viewport={"width": 1280, "height": 900})
    visitor = Visitor(context.new_page(), portal.admin_email)
    watch(visitor, portal.url)
    visitor.page.goto("/login")
    visitor.page.fill("#email", portal.admin_email)
    visitor.page.fill("#password", portal.admin_password)
    visitor.page.click("button[type=submit]")
    visitor.page.wait_for_selector("#tenant-name", state="attached")
    yield visitor
    context.close()


@pytest.fixture
def tenant(portal: RunningPortal) -> str:
    """A tenant whose name is hostile."""
    name = f"<img src=x onerror=alert(1)> {secrets.token_hex(3)}"
    email = f"{secrets.token_hex(4)}@x.example"
    portal.command("admin", "create-tenant", "--name", name, "--email", email, "--password", "long password 1")
    return name


def test_page_is_unknown_to_all_but_admins(
    portal: RunningPortal, admin: Visitor, sign_up: Callable[[str], Visitor]
) -> None:
    alice = sign_up("Alpha")
    for path in ("/admin", "/admin/", "/admin?tab=audit", "/files/admin/audit.csv"):
        assert alice.page.request.get(path).status == 404, path
    expect(alice.page.locator(".shell nav")).not_to_contain_text("Admin")
    assert httpx.get(f"{portal.url}/admin", headers={"Accept": "text/html"}).status_code == 303
    expect(admin.open("/").locator(".shell nav")).to_contain_text("Admin")


def test_limit_is_seen_set_and_undone_and_audited_with_its_request(
    portal: RunningPortal, admin: Visitor, tenant: str
) -> None:
    page = admin.open("/admin")
    page.get_by_role("link", name=tenant).click()
    page.fill("#new-pages_per_day", "0")
    page.fill("form[data-action=preview] [name=reason]", "too loud")
    page.click("#see-effect")
    notice = page.locator("#admin-notice")
    expect(notice).to_contain_text("5,000 → 0")
    expect(notice).to_contain_text("new work is refused until the limit is raised")
    row = page.locator(".limits tr").nth(1)
    expect(row).to_contain_text("5,000")
    head, field = page.locator(".limits thead th").last.bounding_box(), row.locator("input").bounding_box()
    assert head is not None
    assert field is not None
    assert abs(head["x"] - field["x"]) < 1, "a column stands under its heading"
    portal.command("admin", "set-quota", "--tenant", tenant, "--pages-per-day", "7")
    page.click("#confirm-change")
    expect(notice).to_contain_text("Somebody changed this tenant's limits meanwhile.")
    expect(notice).to_contain_text("7 → 0")
    expect(row.locator("td").first).to_have_text("7")
    expect(row.locator("input")).to_have_value("0")  # what was typed stays until it is done
    page.click("#confirm-change")
    expect(notice.get_by_role("heading")).to_have_text("Changed")
    expect(row.locator("td").first).to_have_text("0")
    expect(row.locator("input")).to_have_value("")
    expect(page.locator(".changes li")).to_contain_text(["pages a day: 7 → 0", "pages a day: as the plan → 7"])
    page.click("#undo-change")
    expect(row.locator("td").first).to_have_text("7")
    page.goto("/admin?tab=audit")
    page.fill("[name=tenant]", tenant)
    page.fill("[name=action]", "limits.")
    page.click("#filter-audit")
    entries = page.locator(".audit-entry")
    expect(entries).to_have_count(3)
    expect(entries.nth(0)).to_contain_text("limits.undone")
    expect(entries.nth(1)).to_contain_text("pages_per_day: 7 → 0")
    expect(entries.nth(1)).to_contain_text("request ")
    saved = page.request.get(str(page.get_attribute("#audit-csv", "href")))
    assert (saved.status, len(saved.text().splitlines())) == (200, 4)
    assert (admin.alerts, admin.faults, admin.outside) == ([], [], [])


def test_other_forms_keep_what_was_typed_and_the_plan_is_named_when_limits_are_changed(
    portal: RunningPortal, admin: Visitor, tenant: str
) -> None:
    plan = f"<i>{secrets.token_hex(3)}"
    portal.command("admin", "create-plan", "--name", plan)
    page = admin.open("/admin")
    page.get_by_role("link", name=tenant).click()
    page.fill("form[data-action=state] [name=reason]", "half a sent")
    page.select_option("form[data-action=state] [name=state]", "no_new_jobs")
    page.fill("#new-weight", "2")
    page.select_option("form[data-action=preview] [name=plan]", plan)
    page.click("#see-effect")
    page.click("#confirm-change")
    expect(page.locator("#admin-notice").get_by_role("heading")).to_have_text("Changed")
    expect(page.locator(".changes li p").first).to_have_text(f"plan: the default → {plan}")
    expect(page.locator("#new-weight")).to_have_value("")
    expect(page.locator("form[data-action=preview] [name=plan]")).to_have_value("")
    expect(page.locator("form[data-action=state] [name=reason]")).to_have_value("half a sent")
    expect(page.locator("form[data-action=state] [name=state]")).to_have_value("no_new_jobs")
    page.fill("#new-weight", "3")
    page.click("#set-state")
    expect(page.locator("#admin-notice")).to_contain_text("The state is now: No new jobs")
    expect(page.locator("form[data-action=state] [name=reason]")).to_have_value("half a sent")  # as it is now
    expect(page.locator("#new-weight")).to_have_value("3")
    assert (admin.alerts, admin.faults) == ([], [])


def test_what_is_typed_stays_in_its_own_form_when_a_new_one_comes_before_it(
    portal: RunningPortal, admin: Visitor
) -> None:
    kept, new = (f"{first} {secrets.token_hex(3)}" for first in ("zz", "yy"))
    portal.command("admin", "create-plan", "--name", kept)
    page = admin.open("/admin?tab=plans")
    page.fill(f"[data-action=edit-plan][data-target='{kept}'] [name=pages_per_day]", "77")
    page.fill("[data-action=create-plan] [name=name]", new)
    page.fill("[data-action=create-plan] [name=weight]", "3")
    page.click("#create-plan")
    expect(page.locator(f"[data-action=edit-plan][data-target='{new}'] [name=pages_per_day]")).to_have_value("")
    expect(page.locator(f"[data-action=edit-plan][data-target='{kept}'] [name=pages_per_day]")).to_have_value("77")
    for name in ("name", "weight"):
        expect(page.locator(f"[data-action=create-plan] [name={name}]")).to_have_value("")
    assert admin.faults == []


def test_tenant_is_deleted_only_when_its_name_is_typed(admin: Visitor, tenant: str) -> None:
    page = admin.open("/admin")
    page.get_by_role("link", name=tenant).click()
    form = page.locator("form[data-action=delete]")
    form.locator("input").fill("another")
    page.click("#delete-tenant")
    expect(page.locator("#admin-notice")).to_contain_text("The typed name is not the tenant's")
    form.locator("input").fill(tenant)
    page.click("#delete-tenant")
    expect(page.locator("#admin-notice")).to_contain_text("is deleted")
    expect(page.locator("#admin-body")).to_contain_text("There is no such tenant")


def test_looking_at_what_is_other_tenants_is_in_the_audit_log(admin: Visitor, tenant: str) -> None:
    page = admin.open("/admin")
    page.get_by_role("link", name=tenant).click()
    page.locator(".limits").wait_for()
    for tab in ("requests", "overview"):
        admin.open(f"/admin?tab={tab}")
        page.locator("#admin-body :is(section, form, .empty)").first.wait_for()
    page.goto("/admin?tab=audit")
    entries = page.locator(".audit-entry")
    for number, action in enumerate(("overview.read", "quota_requests.read", "tenant.read", "tenants.read")):
        expect(entries.nth(number)).to_contain_text(action)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_has_no_serious_fault_and_fits(admin: Visitor, tenant: str, width: int, scheme: str) -> None:
    page = admin.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for tab in TABS:
        admin.open(f"/admin?tab={tab}")
        page.locator("#admin-body :is(section, form, .empty)").first.wait_for()
        if tab == "tenants" and width == 390:
            page.get_by_role("link", name=tenant).click()
            page.locator(".limits").wait_for()
        found = Axe().run(page).response["violations"]
        serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert serious == [], [(tab, fault["id"], [node["html"] for node in fault["nodes"]]) for fault in serious]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 360, 320])
def test_header_does_not_scroll_when_the_screen_is_small(admin: Visitor, width: int) -> None:
    page = admin.open("/")
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.locator(".shell nav a")).to_have_count(5)
    assert page.locator(".shell nav").evaluate("nav => nav.scrollWidth - nav.clientWidth") == 0
