"""Use, limits and prices in words and drawings, as the pages show them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from portal.domain import Limit
from portal.errors import DocumentRefused, Forbidden, InvalidRequest
from portal.jobs.price import FilePrice, Price
from portal.ui import charts, price_view, quota_line, usage_view, usage_words
from portal.ui.usage_view import Asked
from portal.usage.bindings import refusal
from portal.usage.counters import Counters
from portal.usage.limits import Limits, TenantState, Terms
from portal.usage.notices import Notice
from portal.usage.periods import period_at
from portal.usage.receipt_list import ListedReceipt, ReceiptSort
from portal.usage.receipts import REASONS, Receipt, ReceiptLine
from portal.usage.reports import DayUse, PageSums, Share, UsageReport
from portal.usage.standing import TenantStanding
from tests.ui.conftest import ATTACK

AT = datetime(2026, 3, 12, 18, tzinfo=UTC)  # 19:00 in Berlin
LIMITS = Limits(pages_per_day=500, pages_per_month=5000)


def standing(used: int, limits: Limits = LIMITS) -> TenantStanding:
    terms = Terms(limits, "standard", "Europe/Berlin", TenantState.ACTIVE, None)
    counters = Counters(day="2026-03-12", day_pages=used, month="2026-03", month_pages=used)
    return TenantStanding(terms, period_at(AT, "Europe/Berlin"), counters)


def test_headline_tells_use_reset_and_when_pages_run_out() -> None:
    told = usage_words.headline(standing(412), AT + timedelta(hours=1, minutes=20))
    assert told == "412 of 500 pages today, resets in 5 h; at this pace they run out about 20:20."
    assert usage_words.headline(standing(100), None).endswith("resets in 5 h; at this pace they last until then.")
    assert usage_words.headline(standing(0), None) == "0 of 500 pages today, resets in 5 h."
    spent = usage_words.headline(standing(500), None)
    assert spent == "500 of 500 pages today, resets in 5 h. None are left until 13 Mar."
    month = Limits(pages_per_day=None, pages_per_month=1000)
    late = usage_words.headline(standing(900, month), AT + timedelta(days=3))
    assert late == "900 of 1,000 pages this month, resets in 19 days; at this pace they run out about 15 Mar."
    free = Limits(pages_per_day=None, pages_per_month=None)
    assert usage_words.headline(standing(1, free), None) == "1 page today; no limit applies."


def test_limit_that_binds_is_marked_in_words_and_pattern() -> None:
    drawn = usage_view.limits(standing(412))
    assert drawn.count("binds first") == drawn.count("data-nearest") == 1
    assert "412 of 500 used, 88 left; resets in 5 h, at 00:00" in drawn
    assert 'class="fill-nearest"' in drawn
    assert "binds first" not in usage_view.limits(standing(249))  # not while less than half of it is used
    assert "binds first" in usage_view.limits(standing(250))
    assert 'data-level="full"' in usage_view.limits(standing(0, replace(LIMITS, pages_per_day=0)))


@pytest.mark.parametrize(
    ("percent", "told"),
    [
        (50, "50 % of today&#39;s pages are used: 250 of 500."),
        (100, "All of today&#39;s pages are used: 250 of 500."),
    ],
)
def test_notice_is_told_quietly(percent: int, told: str) -> None:
    assert told in quota_line.lines([Notice(Limit.PAGES_PER_DAY, "2026-03-12", percent, 500)], standing(250))


def test_notice_names_what_is_closed_and_any_other_target_is_refused() -> None:
    shown = Notice(Limit.PAGES_PER_DAY, "2026-03-12", 50, 500)
    [target] = re.findall('data-target="([^"]*)"', quota_line.lines([shown], standing(250)))
    assert quota_line.notice_of({"target": target}) == shown
    for hostile in (
        None,
        "",
        target[:-4],
        f"{target}:1",
        f"{target}00000000",
        f"{target}²",
        target.replace("50:", "51:"),
    ):
        with pytest.raises(InvalidRequest):
            quota_line.notice_of({"target": hostile})


def _price(pages: list[int], used: int, **limits: int | None) -> Price:
    at = standing(used, replace(LIMITS, **limits))
    files = tuple(
        FilePrice(f"{ATTACK}{number}.pdf", count, tuple(range(1, count + 1))) for number, count in enumerate(pages)
    )
    refused = refusal(at.counters, at.terms.limits, at.period, pages=sum(pages))
    return Price(files, at, refused, 42.0)


def test_price_is_one_line_when_the_pages_fit() -> None:
    assert usage_words.price(_price([12], 462)) == "12 pages · 38 of 500 left today · about 40 s"
    drawn = price_view.price(_price([12, 1], 462))
    assert 'data-fits="yes"' in drawn
    assert "<img" not in drawn
    assert "&lt;img src=x onerror=alert(1)&gt;1.pdf: 1 page</li>" in drawn
    near = _price([1], 0, pages_per_day=None, pages_in_flight=2)
    assert usage_words.price(near) == "1 page · 5,000 of 5,000 left this month · about 40 s"
    assert usage_words.left(standing(0, Limits(pages_per_day=None, pages_per_month=None))) == ""


def _of_them_free(found: Price, *free: int) -> Price:
    """With these pages of its first file read before."""
    files = (replace(found.files[0], free=frozenset(free)), *found.files[1:])
    pages = sum(file.pages for file in files)
    refused = refusal(found.standing.counters, found.standing.terms.limits, found.standing.period, pages=pages)
    return replace(found, files=files, refusal=refused)


def test_pages_read_before_are_told_as_free_and_not_counted() -> None:
    assert usage_words.price(_of_them_free(_price([1], 500), 1)) == "1 page, read before: free"
    some = _of_them_free(_price([3], 498), 2)
    assert usage_words.price(some) == "3 pages, 1 of them read before: free · 2 of 500 left today · about 40 s"
    assert 'data-fits="yes"' in price_view.price(some)
    spent = price_view.price(_of_them_free(_price([4], 500), 1, 2))
    assert "0 pages left today, this file has 2 not read before." in spent
    assert 'data-keep="1" data-range="1-2">Read only the first 2<' in spent
    two = price_view.price(_of_them_free(_price([1, 1], 500), 1))
    assert "Read only the first file (1 page)" in two
    assert "0.pdf: 1 page, read before: free</li>" in two


def test_choices_are_offered_when_the_pages_do_not_fit() -> None:
    one = price_view.price(_price([12], 492))
    assert "8 pages left today, this file has 12." in one
    assert 'data-keep="1" data-range="1-8">Read only the first 8<' in one
    assert 'href="/usage?ask=pages_per_day#ask"' in one
    assert "Resets 00:00 (Europe/Berlin)." in one
    chosen = _price([5], 496)
    chosen = replace(chosen, files=(replace(chosen.files[0], page_count=9, numbers=(2, 4, 6, 7, 9)),))
    assert 'data-range="2,4,6-7"' in price_view.price(chosen)
    assert "4 pages left today, this choice has 5." in price_view.price(chosen)
    assert "Read only the first 2 files (7 pages)" in price_view.price(_price([3, 4, 9], 492))
    assert "Read only the first 8 pages of the first file" in price_view.price(_price([30, 4], 492))
    none_left = price_view.price(_price([12], 500))
    assert "data-keep" not in none_left
    assert "0 pages left today" in none_left
    flight = price_view.price(_price([12], 0, pages_per_day=None, pages_per_month=None, pages_in_flight=10))
    assert "10 pages left until others are read, this file has 12." in flight


def test_other_refusals_are_told_as_the_api_tells_them() -> None:
    found = _price([1], 0)
    stopped = replace(found, refusal=Forbidden("Stopped.", remedy="Ask the admin."))
    assert "<b>Not allowed.</b> Stopped. Ask the admin." in price_view.price(stopped)
    bad = DocumentRefused("x: empty.", remedy="Save it again.")
    broken = Price((FilePrice("x", error=bad), *found.files), found.standing, bad, 1.0)
    assert "x: empty. Save it again." in price_view.price(broken)
    assert "cannot be read" in price_view.price(broken)


def _report(*days: DayUse) -> UsageReport:
    share = Share("key_1", ATTACK, PageSums(charged=4))
    return UsageReport(days, (Share("extract", "extract", PageSums(charged=4)),), (share,), (), ())


def test_plot_has_a_table_a_legend_and_the_limit_when_it_is_near() -> None:
    day = DayUse("2026-03-12", PageSums(charged=400, failed=2), refused_requests=1)
    drawn = usage_view.plots(_report(day), standing(400), Asked())
    assert "limit 500" in drawn
    assert "12 Mar: 400 charged, 2 failed" in drawn
    assert '<th scope="row">2026-03-12</th><td>400</td><td>2</td><td>1</td>' in drawn
    assert "<img" not in drawn
    assert "plot-limit" not in usage_view.plots(_report(day), standing(400, Limits(pages_per_day=9000)), Asked())
    assert "Nothing read in these days" in usage_view.plots(
        _report(DayUse("2026-03-12", PageSums())), standing(0), Asked()
    )
    assert "<rect" in charts.bar(2.0)


def test_receipt_says_why_and_hides_no_deleted_job() -> None:
    lines = (
        ReceiptLine("returned", "blank", 1),
        ReceiptLine("posted", "read", 2),
        ReceiptLine("reserved", "submitted", 4),
    )
    one = ListedReceipt(
        "res_1", AT, "2026-03-12", "job_1", "extract", "embedded", "submitted", ATTACK, None, Receipt(lines), "1-res_1"
    )
    asked = Asked(sort=ReceiptSort.CHARGED)
    drawn = usage_view.receipts([one], asked, {"job_1": ATTACK}, "Europe/Berlin", has_more=True)
    assert "2 read, 1 no text found, 1 pending" in drawn
    assert "12 Mar 19:00" in drawn
    assert "<img" not in drawn
    assert 'aria-sort="descending" class="count"><a href="/usage?sort=charged&amp;order=up">' in drawn
    assert "after=1-res_1" in drawn
    assert "deleted job" in usage_view.receipts([one], asked, {}, "UTC", has_more=False)
    assert all(words for words in REASONS.values())
