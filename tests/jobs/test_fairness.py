"""Fair turns between tenants, as a pure function of what is waiting."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from portal.jobs.fairness import FairQueue, pages_ahead


def _served(
    backlog: dict[str, int], weights: dict[str, float], turns: int, *, queue: FairQueue | None = None
) -> list[str]:
    queue, left, order = queue or FairQueue(), dict(backlog), []
    for _ in range(turns):
        waiting = [flow for flow, pages in left.items() if pages]
        if not waiting:
            break
        flow = queue.choose(waiting)
        queue.serve(flow, weight=weights.get(flow, 1.0))
        left[flow] -= 1
        order.append(flow)
    return order


def test_small_job_goes_second_when_another_floods() -> None:
    queue = FairQueue()
    for _ in range(50):
        assert queue.choose(["flood"]) == "flood"
        queue.serve("flood")
    assert queue.choose(["flood", "newcomer"]) == "newcomer"


def test_idle_flow_gains_no_credit_when_it_comes_back() -> None:
    queue = FairQueue()
    queue.serve("sleeper")
    for _ in range(100):
        queue.serve("busy")
    order = []
    for _ in range(6):
        flow = queue.choose(["busy", "sleeper"])
        queue.serve(flow)
        order.append(flow)
    assert order.count("sleeper") == 3


def test_vip_gets_its_share_when_weights_differ() -> None:
    served = Counter(_served({"vip": 1000, "one": 1000, "two": 1000}, {"vip": 2.0}, 400))
    assert abs(served["vip"] - 200) <= 2
    assert abs(served["one"] - 100) <= 2


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 60), min_size=2),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.25, 8)),
)
def test_nobody_starves_when_all_are_backlogged(backlog: dict[str, int], weights: dict[str, float]) -> None:
    order = _served(backlog, weights, sum(backlog.values()))
    assert Counter(order) == Counter(backlog)
    for first in backlog:
        for second in backlog:
            both = min(_last(order, first), _last(order, second))
            shares = [order[:both].count(flow) / weights.get(flow, 1.0) for flow in (first, second)]
            # The bound of the paper: one page of each flow, in normalised service.
            slack = 1 / weights.get(first, 1.0) + 1 / weights.get(second, 1.0)
            assert abs(shares[0] - shares[1]) <= slack + 1e-6


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0.01, 100), min_size=2), st.integers(0, 10_600))
@example({"a": 1.0, "b": 30.0, "c": 100.0}, 10_600)  # past the moment where the queue begins anew
def test_turns_are_the_same_however_long_the_queue_has_run(weights: dict[str, float], turns: int) -> None:
    old = FairQueue()
    for _ in range(turns):
        old.serve("past", weight=0.01)
    backlog = dict.fromkeys(weights, 300)
    young, aged = (Counter(_served(backlog, weights, 300, queue=queue)) for queue in (FairQueue(), old))
    # Where two are due at once to within a rounding, either may go first.
    assert all(abs(young[flow] - aged[flow]) <= 1 for flow in weights)


def test_shares_hold_when_the_queue_has_run_for_ages() -> None:
    queue, weights = FairQueue(), {"quick": 100.0, "one": 10.0, "slow": 0.01}
    for _ in range(2):
        queue.serve("ages", weight=1e-15)  # as many turns as nobody waits for: a double no longer tells 0.01 apart
    served = Counter(_served(dict.fromkeys(weights, 1100), weights, 1010, queue=queue))
    assert abs(served["quick"] - 10 * served["one"]) <= 20
    assert served["slow"] <= 1


def _last(order: list[str], flow: str) -> int:
    return len(order) - order[::-1].index(flow)


@given(
    st.dictionaries(st.sampled_from("bcdef"), st.integers(0, 30)),
    st.integers(1, 30),
)
def test_forecast_bounds_the_real_turn_when_all_wait(others: dict[str, int], own: int) -> None:
    order = _served({**others, "a": own}, {}, sum(others.values()) + own)
    for position in range(1, own + 1):
        real = [index for index, flow in enumerate(order) if flow == "a"][position - 1]
        forecast = pages_ahead(position, {"job": own}, others, job="job")
        assert forecast - len(others) <= real <= forecast
