"""The estimate of a clock's offset, on simulated ping-pongs whose true offset is known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow import slow

from allreduce_instrumentation.clock_sync.synchronisation import Exchange, estimate_offset

Delay = Callable[[random.Random], float]

TRUE_OFFSET_NS = 86_400_123_456_789
EXCHANGES = 100
TRIALS = 500


def exchange(
    ping_ns: int, pong_ns: int, *, offset_ns: int = TRUE_OFFSET_NS, thinking_ns: int = 300, sent_ns: int = 0
) -> Exchange:
    """One ping-pong with these delays; sent at ``sent_ns`` of this rank's clock."""
    received_ns = sent_ns + ping_ns + offset_ns
    answered_ns = received_ns + thinking_ns
    return Exchange(sent_ns, received_ns, answered_ns, answered_ns - offset_ns + pong_ns)


def simulated(rng: random.Random, ping: Delay, pong: Delay) -> list[Exchange]:
    return [exchange(round(ping(rng)), round(pong(rng))) for _ in range(EXCHANGES)]


def least_ns_and_queues(least_ns: float) -> Delay:
    return lambda rng: least_ns + rng.expovariate(1 / 10_000)


def least_ns_and_heavy_tail(least_ns: float) -> Delay:
    """Without a variance: once in a while a message takes a thousand times as long."""
    return lambda rng: least_ns * rng.paretovariate(1.2)


DELAYS = {
    "symmetric": (least_ns_and_queues(20_000), least_ns_and_queues(20_000)),
    "asymmetric": (least_ns_and_queues(50_000), least_ns_and_queues(10_000)),
    "heavy tails": (least_ns_and_heavy_tail(20_000), least_ns_and_heavy_tail(20_000)),
    "asymmetric heavy tails": (least_ns_and_heavy_tail(40_000), least_ns_and_heavy_tail(20_000)),
    "one way busy": (least_ns_and_heavy_tail(20_000), lambda rng: 20_000.0),
}


def test_equal_delays_give_the_offset_itself() -> None:
    assert estimate_offset([exchange(5_000, 5_000)])[:2] == (TRUE_OFFSET_NS, 5_000)


def test_in_the_middle_of_all_bounds_the_uncertainty_is_half_of_what_they_leave() -> None:
    """The quickest ping and the quickest pong need not belong together."""
    exchanges = [exchange(2_000, 2_000), *(exchange(ping, 5_000 - ping) for ping in (1_000, 4_000))]
    estimate = estimate_offset(exchanges)
    assert estimate[:2] == (TRUE_OFFSET_NS, 1_000)


def test_off_the_middle_the_uncertainty_reaches_to_the_farther_bound() -> None:
    fast = [exchange(1_000, 1_000)] * 10
    lopsided = [exchange(1_000, 1_000), exchange(100, 90_000)]
    estimate = estimate_offset(fast + lopsided)
    assert estimate[:2] == (TRUE_OFFSET_NS, 1_000)
    lower_ns = max(exchange.lower_bound_ns for exchange in fast + lopsided)
    assert estimate.offset_ns - lower_ns == 1_000


def test_the_offset_is_the_median_over_the_tenth_with_the_shortest_round_trips() -> None:
    fast = [exchange(1_000, 1_000 + skew) for skew in (0, 20, 400)]
    slow = [exchange(2_000, 90_000) for _ in range(27)]
    assert estimate_offset(slow + fast).offset_ns == TRUE_OFFSET_NS - 10


def test_an_estimate_is_of_the_time_of_its_fastest_exchanges() -> None:
    """Not of the end: others may have had their turn since, and clocks drift."""
    slow = [exchange(50_000, 50_000, sent_ns=10**6 * n) for n in range(9)]
    fast = exchange(1_000, 1_000, sent_ns=4_500_000)
    assert estimate_offset([*slow[:5], fast, *slow[5:]]).perf_counter_ns == fast.returned_ns


def test_the_time_that_the_reference_takes_to_answer_is_no_delay() -> None:
    patient = exchange(5_000, 5_000, thinking_ns=10**9)
    assert estimate_offset([patient, exchange(6_000, 7_000)] * 5)[:2] == (TRUE_OFFSET_NS, 5_000)


def test_bounds_that_cross_leave_an_uncertainty_above_zero() -> None:
    """A clock that drifts during the exchanges contradicts itself."""
    exchanges = [exchange(100, 100), exchange(100, 100, offset_ns=TRUE_OFFSET_NS + 1_000)]
    assert estimate_offset(exchanges).uncertainty_ns == 400 + 500  # and to the middle between them


@pytest.mark.parametrize("trials", [TRIALS // 5, slow(TRIALS, "five times as many")])
@pytest.mark.parametrize("name", DELAYS)
def test_the_stated_uncertainty_covers_the_error(name: str, trials: int) -> None:
    rng = random.Random(name)
    estimates = [estimate_offset(simulated(rng, *DELAYS[name])) for _ in range(trials)]
    covered = [abs(e.offset_ns - TRUE_OFFSET_NS) <= e.uncertainty_ns for e in estimates]
    assert all(covered)


@pytest.mark.slow("why the method is what it is; how right it is is quick")
@pytest.mark.parametrize("name", ["heavy tails", "one way busy"])
def test_the_mean_of_all_exchanges_is_ten_times_worse(name: str) -> None:
    rng = random.Random(name)
    trials = [simulated(rng, *DELAYS[name]) for _ in range(TRIALS)]
    errors = [abs(estimate_offset(trial).offset_ns - TRUE_OFFSET_NS) for trial in trials]
    errors_of_mean = [abs(sum(e.offset_ns for e in trial) / EXCHANGES - TRUE_OFFSET_NS) for trial in trials]
    assert sorted(errors_of_mean)[TRIALS // 2] > 10 * sorted(errors)[TRIALS // 2]


delays = st.integers(0, 10**9)


@given(st.lists(st.tuples(delays, delays), min_size=1, max_size=30), st.integers(-(10**14), 10**14))
def test_whatever_the_delays_the_uncertainty_covers_the_error_and_the_fastest_round_trips_bound_it(
    trips: list[tuple[int, int]], offset_ns: int
) -> None:
    """By half of the slowest round trip in the tenth used."""
    exchanges = [exchange(ping, pong, offset_ns=offset_ns) for ping, pong in trips]
    estimate = estimate_offset(exchanges)
    slowest_used_ns = sorted(map(sum, trips))[-(-len(trips) // 10) - 1]
    assert abs(estimate.offset_ns - offset_ns) <= estimate.uncertainty_ns + 1
    assert estimate.uncertainty_ns <= slowest_used_ns / 2 + 1
