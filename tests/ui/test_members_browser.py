"""From an invite to the end of a membership, in two real browsers and as an API key sees it."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from playwright.sync_api import Browser, expect

from tests.conftest import RunningPortal
from tests.ui.conftest import Visitor, watch
from tests.ui.test_accessibility import ALL, findings

PASSWORD = "seven green kettles"
MEMBER = "bob@members-browser.example"


def test_guest_joins_by_link_and_is_out_at_once_when_removed(
    portal: RunningPortal, browser: Browser, sign_up: Callable[[str], Visitor]
) -> None:
    alice = sign_up("Alice")
    owner = alice.page
    owner.goto("/members")
    owner.get_by_label("Note").fill("<img src=x onerror=alert(1)>")
    owner.get_by_role("button", name="Make an invite link").click()
    link = owner.get_by_label("Invite link").input_value()
    owner.context.grant_permissions(["clipboard-read", "clipboard-write"])
    owner.get_by_role("button", name="Copy").click()
    expect(owner.get_by_text("Copied.")).to_be_visible()
    assert owner.evaluate("navigator.clipboard.readText()") == link

    context = browser.new_context(base_url=portal.url)
    bob = Visitor(context.new_page(), MEMBER)
    watch(bob, portal.url)
    asked: list[str] = []
    bob.page.on("request", lambda request: asked.append(f"{request.url} {request.headers.get('referer', '')}"))
    bob.page.goto("/invite")
    bob.page.goto(link)  # the same page with another fragment: no load
    bob.page.get_by_label("E-mail").fill(MEMBER)
    token = link.partition("#")[2]
    assert findings(bob.page, ALL) == []
    assert bob.page.url == f"{portal.url}/invite"
    bob.page.get_by_label("Password", exact=True).fill(PASSWORD)
    bob.page.get_by_role("button", name="Join").click()
    bob.page.wait_for_selector("#tenant-name", state="attached")
    assert [line for line in asked if token in line] == []
    assert token not in portal.log_file.read_text()

    bob.page.goto("/keys")
    bob.page.get_by_label("Name").fill("bobs")
    bob.page.get_by_role("button", name="Create key").click()
    key = bob.page.locator("#key-value").inner_text()
    headers = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{portal.url}/v1/me", headers=headers).json()["member"]["role"] == "member"

    owner.goto("/members")
    owner.get_by_role("link", name=f"Manage {MEMBER}").click()
    expect(owner.get_by_text("1 browser and 1 API key end at once.")).to_be_visible()
    assert findings(owner, ALL) == []
    owner.get_by_role("button", name=f"Remove {MEMBER}").click()
    expect(owner.get_by_role("status").first).to_contain_text("The member is removed.")
    expect(owner.get_by_text(MEMBER)).to_have_count(0)

    assert httpx.get(f"{portal.url}/v1/me", headers=headers).json()["code"] == "api_key_revoked"
    bob.page.goto("/history")
    expect(bob.page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()
    for visitor in (alice, bob):
        assert (visitor.alerts, visitor.faults, visitor.outside) == ([], [], [])
