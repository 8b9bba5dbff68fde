"""Every page in both themes and at both widths: axe, one h1, large targets, no sideways scroll, a title."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select, update

from models import DocumentRow, Job, Member
from models import Page as PageRow
from models.base import new_id, now
from portal.db import Database
from portal.domain import JobState, PageState
from portal.page_text import Block, Line, PageText
from portal.results.serial import page_text_to_json
from tests.conftest import RunningPortal
from tests.ui.conftest import Visitor

# The second theme can only change colours.
COLOURS = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
ALL = {"resultTypes": ["violations"]}
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
# Links inside sentences are as large as their words.
SMALL_TARGETS = """
[...document.querySelectorAll('button, summary, input:not([type=hidden]), .button, nav a, .account a')]
  .filter((target) => target.checkVisibility({ opacityProperty: true }) && target.tabIndex >= 0)
  .map((target) => [target.closest('label') || target, target])
  .filter(([whole]) => whole.getBoundingClientRect().height < 44)
  .map(([, target]) => target.outerHTML.slice(0, 160))
"""


@dataclass(frozen=True)
class Place:
    """A page and what shows that it is there."""

    path: str
    shown: str


@pytest.fixture
def jobs(portal: RunningPortal, sign_up: Callable[[str], Visitor]) -> Iterator[tuple[Visitor, dict[JobState, str]]]:
    """A member with a job in each state that looks different. Nobody works on them: their pages are claimed."""
    visitor = sign_up("Alice")
    database = Database(f"sqlite:///{portal.data_dir / 'portal.db'}")
    states = (JobState.RUNNING, JobState.SUCCEEDED, JobState.PARTIAL, JobState.FAILED)
    with database.transaction() as session:
        member = session.scalars(select(Member).where(Member.email == visitor.email)).one()
        found = {state: new_id("job") for state in states}
        for state, job_id in found.items():
            session.add_all(_rows(member, job_id, state))
            session.flush()
    yield visitor, found
    with database.transaction() as session:
        session.execute(update(PageRow).where(PageRow.claimed_by == "nobody").values(state="cancelled"))
        session.execute(update(Job).where(Job.id == found[JobState.RUNNING]).values(state="cancelled"))
    database.dispose()


def _rows(member: Member, job_id: str, state: JobState) -> list[Any]:
    own: dict[str, Any] = {"tenant_id": member.tenant_id}
    job = Job(id=job_id, member_id=member.id, task="extract", engine="embedded", engine_profile="1", **own)
    job.state, job.page_count = state, 2
    document = DocumentRow(id=new_id("doc"), member_id=member.id, file_name="Letter to the harbour office.pdf", **own)
    document.media_type, document.byte_size, document.sha256, document.page_count = (
        "application/pdf",
        52_000,
        "0" * 64,
        2,
    )
    first = {JobState.FAILED: PageState.FAILED}.get(state, PageState.SUCCEEDED)
    second = {JobState.RUNNING: PageState.RUNNING, JobState.SUCCEEDED: PageState.SUCCEEDED}.get(state, PageState.FAILED)
    pages = [_page(number, page_state) for number, page_state in ((1, first), (2, second))]
    for page in pages:
        page.tenant_id, page.job_id, page.document_id = member.tenant_id, job_id, document.id
    return [job, document, *pages]


def _page(number: int, state: PageState) -> PageRow:
    page = PageRow(position=number, number=number, state=state, attempt=1, started_at=now())
    if state is PageState.SUCCEEDED:
        page.result = page_text_to_json(_text())
    elif state is PageState.FAILED:
        page.error_code, page.error_message, page.error_remedy = (
            "engine_timeout",
            "It took too long.",
            "Retry the page.",
        )
    else:
        page.claimed_by = "nobody"
    return page


def _text() -> PageText:
    words = ("The harbour office", "Berth", "12", "Fee", "84.00")
    lines = tuple(Line(word, (10, 40 * place, 300, 40 * place + 30), 0.6) for place, word in enumerate(words))
    table = Block("table", ((((1,), (2,))), (((3,), (4,)))))
    markdown = "# The harbour office\n\n| Berth | 12 |\n|---|---|\n| Fee | 84.00 |\n"
    return PageText(400, 300, lines, (Block("text", (((0,),),)), table), markdown, confidence=0.6)


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_are_accessible_in_both_themes(
    jobs: tuple[Visitor, dict[JobState, str]], browser: Browser, portal: RunningPortal, width: int
) -> None:
    visitor, found = jobs
    page = visitor.page
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(reduced_motion="reduce")
    faults = [fault for place in _own_places(found) for fault in _faults(page, place)]
    stranger = browser.new_page(base_url=portal.url, viewport={"width": width, "height": 844}, reduced_motion="reduce")
    for place in (Place("/login", "#email"), Place("/signup", "#email"), Place("/invite", "#token")):
        faults += _faults(stranger, place)
    stranger.context.close()
    assert not faults, "\n".join(faults)
    assert not visitor.faults
    assert not visitor.outside


def _own_places(jobs: dict[JobState, str]) -> tuple[Place, ...]:
    return (
        Place("/", ".sample"),
        *(Place(f"/?job={job_id}", ".job-title h1") for job_id in jobs.values()),
        Place("/?job=job_unknown", "#notice .notice"),
        Place("/history", ".entry"),
        Place("/usage", ".limit"),
        Place("/keys", ".empty"),
        Place("/account", "form"),
        Place("/members", ".people"),
        Place("/docs", "main"),
        Place("/nowhere", ".trouble"),
    )


def _faults(page: Page, place: Place) -> list[str]:
    page.goto(place.path)
    page.locator(place.shown).first.wait_for(state="attached")
    expect(page.locator("h1")).to_have_count(1)
    faults = [f"small: {target}" for target in page.evaluate(SMALL_TARGETS)]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        faults.append("scrolls sideways")
    if page.title() in ("", "Gradio"):
        faults.append("no title")
    faults += [f"light: {finding}" for finding in findings(page, ALL)]
    was = page.evaluate(BACKGROUND)
    _choose_dark(page)
    if page.evaluate(BACKGROUND) == was:
        faults.append("the theme did not change")
    faults += [f"dark: {finding}" for finding in findings(page, COLOURS)]
    page.evaluate("localStorage.clear()")
    return [f"{place.path} {fault}" for fault in faults]


def _choose_dark(page: Page) -> None:
    for choice in ("light", "dark"):  # Gradio may be drawing the header anew
        page.locator("button.themes").click()
        expect(page.get_by_role("button", name=f"Theme: {choice}")).to_be_visible()


def findings(page: Page, options: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """What axe finds grave: rule and elements."""
    if page.evaluate("'axe' in window"):  # it is large: put into the page once
        found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    else:
        found = Axe().run(page, options=options).response["violations"]
    return [
        (rule["id"], [node["html"][:200] for node in rule["nodes"]])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]
