from __future__ import annotations

import statistics
import time

import pytest
from passlib.context import CryptContext

from portal.accounts import passwords
from portal.errors import InvalidRequest
from tests.accounts import PASSWORD


@pytest.mark.parametrize(
    ("password", "code"),
    [
        ("short12", "password_too_short"),
        ("x" * 201, "password_too_long"),
        ("Me@Example.org", "password_is_email"),
    ],
)
def test_password_is_refused_when_the_policy_says_so(password: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        passwords.check_policy(password, "me@example.org")
    assert refusal.value.code == code
    assert password not in refusal.value.message


@pytest.mark.parametrize("password", ["eight ch", "x" * 200])
def test_password_passes_when_its_length_is_at_the_limit(password: str) -> None:
    passwords.check_policy(password, "me@example.org")


def test_hash_is_argon2id_with_the_agreed_costs(password_hash: str) -> None:
    assert password_hash.startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_verdict_follows_the_password(password_hash: str) -> None:
    assert passwords.verify(PASSWORD, password_hash) == passwords.Verdict(is_right=True)
    assert not passwords.verify(PASSWORD + "x", password_hash).is_right
    assert not passwords.verify(PASSWORD, None).is_right
    assert not passwords.verify("\ud800 lone surrogate", password_hash).is_right


def test_overlong_password_is_wrong_when_its_beginning_is_right() -> None:
    stored = passwords.hashed("x" * 200)
    assert passwords.verify("x" * 200, stored).is_right
    assert not passwords.verify("x" * 201, stored).is_right


def test_same_word_fits_when_its_accents_are_composed_otherwise() -> None:
    assert passwords.verify("cafe\u0301 au lait", passwords.hashed("caf\u00e9 au lait")).is_right


def test_new_hash_is_given_when_the_costs_are_outdated() -> None:
    weak = CryptContext(
        schemes=["argon2"], argon2__type="ID", argon2__memory_cost=1024, argon2__time_cost=1, argon2__parallelism=1
    )
    verdict = passwords.verify(PASSWORD, weak.hash(PASSWORD))
    assert verdict.is_right
    assert verdict.new_hash is not None
    assert "m=19456,t=2,p=1" in verdict.new_hash


def test_unknown_account_takes_as_long_as_a_wrong_password(password_hash: str) -> None:
    def median(stored: str | None) -> float:
        seconds = []
        for _ in range(9):
            start = time.process_time()
            passwords.verify("a wrong password", stored)
            seconds.append(time.process_time() - start)
        return statistics.median(seconds)

    median(None)
    assert 0.5 < median(None) / median(password_hash) < 2


def test_one_time_passwords_differ_and_pass_the_policy() -> None:
    made = {passwords.one_time_password() for _ in range(50)}
    assert len(made) == 50
    for password in made:
        passwords.check_policy(password, "me@example.org")
