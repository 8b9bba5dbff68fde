"""The gate: turns by weight, between jobs and direct requests, and places that are always given back."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.engine.fakes import FakeEngine
from portal.errors import Busy
from portal.jobs.gate import Gate, Turn, WaitingRoom
from portal.jobs.pace import PAGES_AHEAD


def _gate(slots: int = 1) -> Gate:
    engine = FakeEngine()
    engine.slots = slots
    return Gate(engine, lambda: None)


def _served(gate: Gate, pages: int) -> list[Turn]:
    """The turns of that many pages, one after the other."""
    turns = []
    for _ in range(pages):
        turn = gate.next_page()
        if turn is None:
            break
        turns.append(turn)
        gate.end()
    return turns


def test_weights_of_three_to_one_give_three_to_one_when_both_wait() -> None:
    gate = _gate()
    gate.look({"acme": {"job_a": 500}, "other": {"job_b": 500}}, {"acme": 3.0, "other": 1.0})
    served = Counter(turn.tenant_id for turn in _served(gate, 400))
    assert 270 <= served["acme"] <= 330
    assert served["acme"] + served["other"] == 400


def test_newcomer_is_next_when_another_floods() -> None:
    gate = _gate()
    gate.look({"flood": {"job_a": 2000}}, {})
    _served(gate, 100)
    gate.look({"flood": {"job_a": 1900}, **{f"t{n}": {f"job_{n}": 1} for n in range(10)}}, {})
    next_ones = _served(gate, 12)
    assert {f"t{n}" for n in range(10)} <= {turn.tenant_id for turn in next_ones}


def test_jobs_of_a_tenant_take_turns() -> None:
    gate = _gate()
    gate.look({"acme": {"archive": 100, "receipt": 2}}, {})
    assert [turn.flow for turn in _served(gate, 4)].count("receipt") == 2


def test_no_page_begins_when_every_place_is_taken() -> None:
    gate = _gate(slots=2)
    gate.look({"acme": {"job": 10}}, {})
    taken = [gate.next_page() for _ in range(5)]
    assert [turn is not None for turn in taken] == [True] * (2 + PAGES_AHEAD) + [False] * (3 - PAGES_AHEAD)
    gate.end()
    assert gate.next_page() is not None


@settings(max_examples=60, deadline=None)
@given(
    pages=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40), min_size=1),
    weights=st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 10)),
)
def test_nobody_starves_whatever_the_weights(pages: dict[str, int], weights: dict[str, float]) -> None:
    """Each tenant's first page comes before any other has had more than its share against it, plus one."""
    gate = _gate()
    gate.look({tenant: {f"job_{tenant}": number} for tenant, number in pages.items()}, weights)
    served: Counter[str] = Counter()
    waiting = set(pages)
    for turn in _served(gate, sum(pages.values())):
        served[turn.tenant_id] += 1
        waiting.discard(turn.tenant_id)
        for tenant in waiting:
            share = weights.get(turn.tenant_id, 1.0)
            assert served[turn.tenant_id] <= share * 10 / 1 + 1 or served[tenant]
            assert served[turn.tenant_id] / share <= 1 / share + 1e-9, "all first pages come before second ones"
    assert served == Counter(pages)


def test_direct_requests_and_pages_take_turns() -> None:
    async def run() -> list[str]:
        gate = _gate()
        order: list[str] = []

        async def request() -> None:
            async with gate.turn("door"):
                order.append("door")

        gate.look({"acme": {"job": 3}}, {})
        held = [gate.next_page(), gate.next_page()]
        assert None not in held
        asking = [asyncio.create_task(request()) for _ in range(3)]
        await asyncio.sleep(0)
        assert gate.waiting_requests == 3
        gate.end()
        gate.end()
        while len(order) < 4:  # as the dispatcher does when it is woken
            await asyncio.sleep(0)
            if gate.next_page() is not None:
                order.append("page")
                gate.end()
        await asyncio.gather(*asking)
        return order

    order = asyncio.run(run())
    assert Counter(order) == {"door": 3, "page": 1}
    assert order.index("page") < 3, "neither waits for all of the other"


def test_place_is_given_back_when_the_caller_goes_at_any_moment() -> None:
    async def run() -> None:
        gate = _gate()
        inside = asyncio.Event()

        async def hold() -> None:
            async with gate.turn("acme"):
                inside.set()
                await asyncio.sleep(60)

        tasks = [asyncio.create_task(hold()) for _ in range(6)]
        await inside.wait()
        for task in tasks:  # one inside, one ready, the rest waiting
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (gate.waiting_requests, gate.is_full) == (0, False)
        gate.look({"other": {"job": 9}}, {})
        assert len([turn for turn in (gate.next_page() for _ in range(9)) if turn]) == 1 + PAGES_AHEAD

    asyncio.run(run())


def test_requests_beyond_the_waiting_room_are_told_when_to_come_back() -> None:
    async def run() -> None:
        room = WaitingRoom(2)
        async with room.place(), room.place():
            with pytest.raises(Busy) as refused:
                async with room.place(retry_after_seconds=7):
                    raise AssertionError("there was a place")
            assert refused.value.retry_after_seconds == 7
        assert room.taken == 0

    asyncio.run(run())
