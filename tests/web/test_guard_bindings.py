"""Names and their members: exclusive or shared, expiring, and nobody can push out another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.errors import Busy
from portal.web.bindings import Bindings, UploadBudget, UploadBudgetSpent

ALICE, BOB = ("acme", "alice"), ("bolt", "bob")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(clock: Clock, *, per_owner: int = 3, total: int = 100) -> Bindings:
    return Bindings(idle_seconds=10, max_names_per_owner=per_owner, max_names=total, clock=clock)


def test_name_stays_the_first_claimants_when_another_claims_it(clock: Clock) -> None:
    bindings = make(clock)
    assert bindings.claim("x", ALICE)
    assert not bindings.claim("x", BOB)
    assert bindings.owns("x", ALICE)
    assert not bindings.owns("x", BOB)


def test_name_is_free_again_when_it_was_idle_too_long(clock: Clock) -> None:
    bindings = make(clock)
    bindings.claim("x", ALICE)
    clock.now = 9
    assert bindings.owns("x", ALICE)
    clock.now = 18
    assert not bindings.claim("x", BOB)
    clock.now = 20
    assert not bindings.owns("x", ALICE)
    assert bindings.claim("x", BOB)


def test_oldest_of_ones_own_goes_when_one_has_too_many(clock: Clock) -> None:
    bindings = make(clock, per_owner=1)
    bindings.claim("his", BOB)
    for number in range(50):
        assert bindings.claim(f"hers {number}", ALICE)
    assert bindings.owns("his", BOB)
    assert bindings.owns("hers 49", ALICE)
    assert not bindings.owns("hers 48", ALICE)


def test_new_name_is_refused_when_all_are_in_use(clock: Clock) -> None:
    bindings = make(clock, per_owner=10, total=4)
    for name in "abcd":
        bindings.claim(name, ALICE)
    with pytest.raises(Busy):
        bindings.claim("e", BOB)
    assert bindings.owns("a", ALICE)
    clock.now = 11
    assert bindings.claim("e", BOB)


def test_name_is_each_sharers_own_until_it_expires_for_them(clock: Clock) -> None:
    bindings = make(clock)
    bindings.share("path", ALICE)
    clock.now = 8
    bindings.share("path", BOB)
    clock.now = 12
    assert not bindings.owns("path", ALICE)
    assert bindings.owns("path", BOB)


@given(
    st.lists(
        st.tuples(st.sampled_from(["claim", "share", "owns", "wait"]), st.sampled_from("abcde"), st.integers(0, 3)),
        max_size=60,
    )
)
def test_claimed_name_has_one_owner_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    clock = Clock()
    sessions = make(clock, per_owner=2)
    owners = [("t", str(number)) for number in range(4)]
    for action, name, number in steps:
        if action == "wait":
            clock.now += number * 4
        elif action == "claim" and sessions.claim(name, owners[number]):
            assert [owner for owner in owners if sessions.owns(name, owner)] == [owners[number]]
        elif action == "owns":
            sessions.owns(name, owners[number])


def test_budget_is_full_again_when_the_window_has_passed(clock: Clock) -> None:
    budget = UploadBudget(bytes_per_member=100, window_seconds=60, clock=clock)
    budget.spend(ALICE, 90)
    with pytest.raises(UploadBudgetSpent) as refused:
        budget.spend(ALICE, 11)
    assert refused.value.retry_after_seconds == 60
    budget.spend(ALICE, 10)
    budget.spend(BOB, 100)
    clock.now = 61
    budget.spend(ALICE, 100)
