"""What a browser must not show any more after sign-out, and what it says when a part of a page does not load."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.conftest import RunningPortal
from tests.ui.conftest import CHOOSE_FILES, Visitor, page_image
from tests.ui.stored_jobs import page_of, store_job

SignUp = Callable[[str], Visitor]
SECRET = "Salary 4711"


def test_back_button_shows_no_text_after_sign_out(sign_up: SignUp, portal: RunningPortal) -> None:
    alice = sign_up("Alice")
    page = alice.open(f"/?job={store_job(portal.data_dir, alice.email, [page_of([SECRET])])}")
    expect(page.locator("#page-text")).to_contain_text(SECRET)
    readings = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    [reading] = [name for name in readings if name.endswith("/pages/1.json")]
    assert page.request.get(reading).headers["cache-control"] == "no-store"
    with page.expect_response("**/logout") as signed_out:
        page.click("#sign-out")
    assert signed_out.value.header_value("clear-site-data") == '"cache"'
    page.wait_for_url("**/login**")
    page.go_back()
    page.wait_for_url("**/login**")
    expect(page.locator("#email")).to_be_visible()
    assert SECRET not in page.content()
    cached = "(url) => fetch(url, { cache: 'force-cache' }).then((answer) => answer.status)"
    assert page.evaluate(cached, reading) == 401
    assert page.evaluate(cached, reading.replace(".json", ".jpg")) == 401


def test_kept_page_is_hidden_and_asks_anew_when_it_comes_back(sign_up: SignUp) -> None:
    page = sign_up("Alice").open("/")
    page.evaluate("window.dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    assert page.evaluate("getComputedStyle(document.body).visibility") == "hidden"
    with page.expect_navigation():
        page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(page.locator("h1")).to_be_visible()


def _answering(body: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(status=200, body=body)


def test_file_is_refused_in_words_when_the_answer_is_no_list(sign_up: SignUp) -> None:
    page = sign_up("Alice").open("/")
    for answer in ("<html>a proxy's page</html>", "{}", "[]", "[7]"):
        page.route("**/gradio_api/upload**", _answering(answer))
        page.set_input_files(CHOOSE_FILES, {"name": "a.png", "mimeType": "image/png", "buffer": page_image("a")})
        row = page.locator("#drop .file")
        expect(row).to_have_attribute("data-state", "refused")
        expect(row).to_contain_text("could not be uploaded. Remove it and add it again.")
        page.unroute("**/gradio_api/upload**")
        row.get_by_role("button").click()
        expect(row).to_have_count(0)


def test_reload_is_offered_when_the_viewer_does_not_load(sign_up: SignUp, portal: RunningPortal) -> None:
    alice = sign_up("Alice")
    job_id = store_job(portal.data_dir, alice.email, [page_of([SECRET])])
    alice.page.route("**/viewer/viewer.js", lambda route: route.abort())
    page = alice.open(f"/?job={job_id}")
    expect(page.get_by_role("alert").filter(has_text="The page viewer could not be loaded.")).to_be_visible()
    page.unroute("**/viewer/viewer.js")
    page.get_by_role("button", name="Reload the page").click()
    expect(page.locator("#page-text")).to_contain_text(SECRET)


def test_missed_page_is_shown_by_itself_when_the_portal_is_back(sign_up: SignUp, portal: RunningPortal) -> None:
    alice = sign_up("Alice")
    job_id = store_job(portal.data_dir, alice.email, [page_of([SECRET])])
    alice.page.route("**/pages/1.json", lambda route: route.fulfill(status=502, body="a proxy"))
    page = alice.open(f"/?job={job_id}")
    expect(page.locator(".viewer-status")).to_contain_text("could not be loaded")
    page.unroute("**/pages/1.json")
    page.evaluate("window.dispatchEvent(new Event('portal:back'))")
    expect(page.locator("#page-text")).to_contain_text(SECRET)


def test_each_page_has_its_title_before_any_script_runs(sign_up: SignUp) -> None:
    page = sign_up("Alice").page
    for path, title in (("/", "Workspace"), ("/history", "History"), ("/keys", "Keys"), ("/history?q=a", "History")):
        sent = page.request.get(path).text()
        assert re.findall(r"<title>(.*?)</title>", sent) == [f"{title} · OCR Portal"]
        assert f'"title":"{title} ' in sent
