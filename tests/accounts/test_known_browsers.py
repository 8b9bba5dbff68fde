from __future__ import annotations

from datetime import timedelta

import pytest

from portal.accounts import known_browsers
from portal.accounts.known_browsers import browser_id, remembered
from portal.accounts.peppers import Peppers

OLD, NEW = "o" * 32, "n" * 32
PEPPERS = Peppers.from_secrets([NEW, OLD])


def test_browser_is_known_to_the_accounts_it_signed_in_to_and_to_no_other() -> None:
    cookie = remembered(PEPPERS, None, " Alice@Example.org")
    alice = browser_id(PEPPERS, cookie, "alice@example.org")
    assert alice is not None
    assert "alice" not in cookie.lower()
    cookie = remembered(PEPPERS, cookie, "bob@example.org")
    assert browser_id(PEPPERS, cookie, "ALICE@example.org") == alice
    assert browser_id(PEPPERS, cookie, "bob@example.org") not in (None, alice)
    assert browser_id(PEPPERS, cookie, "charlie@example.org") is None
    again = remembered(PEPPERS, cookie, "alice@example.org")
    assert browser_id(PEPPERS, again, "alice@example.org") == alice
    assert again.count("~") == 1


def test_oldest_account_is_forgotten_when_there_are_too_many() -> None:
    cookie = ""
    for number in range(known_browsers.MAX_ACCOUNTS + 1):
        cookie = remembered(PEPPERS, cookie, f"m{number}@example.org")
    assert browser_id(PEPPERS, cookie, "m0@example.org") is None
    assert browser_id(PEPPERS, cookie, "m1@example.org") is not None
    assert len(cookie) < 1000


def test_mark_stands_when_the_secret_is_renewed_and_falls_with_it() -> None:
    cookie = remembered(Peppers.from_secrets([OLD]), None, "alice@example.org")
    assert browser_id(PEPPERS, cookie, "alice@example.org") is not None
    assert browser_id(Peppers.from_secrets([NEW]), cookie, "alice@example.org") is None


def test_mark_ends_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = remembered(PEPPERS, None, "alice@example.org")
    moment = known_browsers.now() + known_browsers.MAX_AGE + timedelta(seconds=1)
    monkeypatch.setattr(known_browsers, "now", lambda: moment)
    assert browser_id(PEPPERS, cookie, "alice@example.org") is None


def test_forged_cookie_is_a_strangers() -> None:
    known, moment, pepper, signature = remembered(PEPPERS, None, "alice@example.org").split(".")
    later = str(int(moment) + 1)
    forged = [
        f"{'A' * 16}.{moment}.{pepper}.{signature}",
        f"{known}.{later}.{pepper}.{signature}",
        f"{known}.{moment}.{'0' * 16}.{signature}",
        f"{known}.{moment}.{pepper}.{'0' * 64}",
        f"{known}.{moment}.{pepper}.{signature}x",
        "~" * 5000,
        "\x00é",
    ]
    assert [browser_id(PEPPERS, cookie, "alice@example.org") for cookie in forged] == [None] * len(forged)
    assert remembered(PEPPERS, forged[-1], "alice@example.org").count("~") == 0
