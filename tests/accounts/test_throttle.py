from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from models import SignInFailures
from models.base import now
from portal.accounts import throttle
from portal.db import Database
from portal.errors import TooManyAttempts
from tests.accounts import at_once

ADDRESS = "203.0.113.7"


def _fail(database: Database, email: str, address: str | None = ADDRESS) -> None:
    with database.transaction() as session:
        throttle.begin_sign_in(session, email, address)
    with database.transaction() as session:
        throttle.record_failure(session, address)


def _succeed(database: Database, email: str, address: str | None = ADDRESS) -> None:
    with database.transaction() as session:
        throttle.begin_sign_in(session, email, address)
    with database.transaction() as session:
        throttle.record_success(session, email, address)


def _rows(database: Database) -> list[int]:
    with database.reading() as session:
        return sorted(session.scalars(select(SignInFailures.failures)))


def test_account_is_refused_when_it_failed_five_times_from_anywhere(database: Database) -> None:
    for number in range(5):
        _fail(database, "me@example.org", f"203.0.113.{number}")
    with pytest.raises(TooManyAttempts) as refusal:
        _fail(database, "me@example.org", "203.0.113.99")
    assert refusal.value.retry_after_seconds is not None
    assert 890 <= refusal.value.retry_after_seconds <= 900
    assert "15 minutes" in refusal.value.remedy
    _succeed(database, "you@example.org", "203.0.113.99")


def test_address_is_refused_when_it_failed_twenty_times_on_any_account(database: Database) -> None:
    for number in range(20):
        _fail(database, f"m{number}@example.org")
    with pytest.raises(TooManyAttempts):
        _fail(database, "you@example.org")
    _succeed(database, "you@example.org", "198.51.100.1")


def test_ipv6_neighbours_count_as_one_when_they_share_a_64_network(database: Database) -> None:
    for number in range(20):
        _fail(database, f"m{number}@example.org", f"2001:db8::{number + 1}")
    with pytest.raises(TooManyAttempts):
        _fail(database, "you@example.org", "2001:db8::ffff")
    _fail(database, "you@example.org", "2001:db8:0:1::1")


def test_account_is_cleared_and_typing_errors_are_taken_back_when_sign_in_succeeds(database: Database) -> None:
    _fail(database, "other@example.org")
    for _ in range(3):
        _fail(database, "me@example.org")
    _succeed(database, "me@example.org")
    assert _rows(database) == [1, 1]


def test_anothers_failures_stay_when_an_attacker_signs_in_himself(database: Database) -> None:
    for _ in range(4):
        _fail(database, "victim@example.org")
    _succeed(database, "attacker@example.org")
    assert _rows(database) == [4, 4]


def test_tries_come_back_when_the_window_has_ended(database: Database) -> None:
    for _ in range(5):
        _fail(database, "me@example.org")
    with database.transaction() as session:
        session.execute(update(SignInFailures).values(window_ends_at=now() - timedelta(seconds=1)))
    _fail(database, "me@example.org")
    assert _rows(database) == [1, 1]


def test_ended_rows_are_purged_when_somebody_else_fails(database: Database) -> None:
    for number in range(3):
        _fail(database, f"m{number}@example.org", None)
    with database.transaction() as session:
        session.execute(update(SignInFailures).values(window_ends_at=now() - timedelta(seconds=1)))
    _fail(database, "me@example.org", None)
    assert _rows(database) == [1]


def test_exactly_five_guesses_pass_when_twenty_come_at_once(database: Database) -> None:
    def guess(number: int) -> None:
        with database.transaction() as session:
            throttle.begin_sign_in(session, "me@example.org", f"203.0.113.{number}")

    results = at_once(20, guess)
    assert results.count(None) == 5
    assert sum(isinstance(result, TooManyAttempts) for result in results) == 15


def test_no_failure_is_lost_when_they_are_counted_at_once(database: Database) -> None:
    def fail(number: int) -> None:
        with database.transaction() as session:
            throttle.record_failure(session, ADDRESS)

    assert at_once(20, fail) == [None] * 20
    assert _rows(database) == [20]


def test_sign_up_is_refused_when_an_address_tried_sixty_times(database: Database) -> None:
    for _ in range(60):
        with database.transaction() as session:
            throttle.begin_sign_up(session, ADDRESS)
    with pytest.raises(TooManyAttempts), database.transaction() as session:
        throttle.begin_sign_up(session, ADDRESS)
    with database.transaction() as session:
        throttle.begin_sign_up(session, "198.51.100.1")


def test_rows_hold_neither_email_nor_address(database: Database) -> None:
    _fail(database, "me@example.org")
    with database.reading() as session:
        subjects = list(session.scalars(select(SignInFailures.subject)))
    assert all(len(subject) == 64 and "me@" not in subject for subject in subjects)
