"""The figures of a cause, and which of several counters is stated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from timing_logger.analysis.verdict.causes.coincidence import (
    Coincidence,
    Delay,
    cause_from,
    least_slow,
    preferred,
)
from timing_logger.analysis.verdict.causes.search import _covering, _explained, _is_its_own
from timing_logger.analysis.verdict.causes.seen import Seen, Stretches
from timing_logger.results.cause import COUNTERS, Cause
from timing_logger.results.policy import STANDARD

NAN = math.nan
CHOSEN = Coincidence(0, 0.9, 0.7, 0.6, 0.01)
QUOTA, WAIT, FAULTS, STEAL = "throttled_us", "main_run_queue_wait_us", "major_faults", "steal_us"


def seen_of(*names: str) -> Seen:
    known = {counter.name: (cause, counter) for cause, counter in COUNTERS}
    stretches = Stretches(np.array([-1, 0, 0, 1, 1]), np.array([[0.0], [2.0]]), np.array([[2.0], [4.0]]))
    return Seen(stretches, [known[name] for name in names], np.zeros((len(names), 2, 1)), 8.0, 4.0)


def cause_of(
    name: str, shown: Sequence[float], share: Sequence[float], *, beyond: Sequence[float] | None = None
) -> Cause:
    """Return the cause of a delay whose first three stretches of five are slow, and last 100 ms each."""
    length_ms = np.full(5, 100.0)
    delay = Delay((3,), np.array(share), np.arange(5) < 3, length_ms)
    its_beyond = np.array(shown if beyond is None else beyond)
    return cause_from(seen_of(name), CHOSEN, delay, np.array(shown), its_beyond, "coincides")


def test_time_is_stated_in_ms_of_a_stretch_and_as_a_share_of_the_time() -> None:
    found = cause_of(WAIT, [0.5, 0.4, 0.3, 0.1, 0.0], [0.6, 0.5, 0.4, 0.0, 0.0])
    assert (found.name, found.counter, found.ranks, found.how) == ("processor-wait", WAIT, (3,), "coincides")
    assert (found.states_time, found.covered_share, found.chance) == (True, 0.7, 0.01)
    assert (found.in_slow, found.in_others, found.delay_ms) == pytest.approx((40.0, 5.0, 50.0))
    assert found.time_share == pytest.approx(1.3 / 5)
    assert (found.stretch_steps, found.stretch_s, found.runnable, found.usable_cores) == (2, 2.0, 8.0, 4.0)


def test_events_are_stated_by_second_and_cover_no_share() -> None:
    found = cause_of(FAULTS, [5.0, 4.0, 3.0, 1.0, 0.0], [0.6, 0.5, 0.4, 0.0, 0.0])
    assert (found.in_slow, found.in_others) == (4.0, 0.5)
    assert math.isnan(found.covered_share)
    assert math.isnan(found.time_share)


def test_a_stretch_of_unknown_length_counts_neither_as_slow_nor_as_another() -> None:
    length_ms = np.array([100.0, NAN, 100.0, NAN, 100.0])
    delay = Delay((3,), np.full(5, 0.5), np.arange(5) < 3, length_ms)
    half = np.full(5, 0.5)
    found = cause_from(seen_of(WAIT), CHOSEN, delay, half, half, "coincides")
    assert (found.slow, found.slow_with, found.other, found.other_with) == (2, 2, 1, 1)


def test_slow_stretches_count_in_which_the_counter_shows_half_of_the_delay() -> None:
    found = cause_of(WAIT, [0.3, 0.29, 0.6, 0.15, 0.14], [0.6, 0.6, 0.6, 0.0, 0.0])
    assert (found.slow, found.slow_with) == (3, 2)
    assert (found.other, found.other_with) == (2, 1)


def test_of_events_half_of_what_is_usual_in_slow_stretches_counts() -> None:
    found = cause_of(FAULTS, [4.0, 8.0, 3.9, 2.0, 1.9], [0.6, 0.6, 0.6, 0.0, 0.0])
    assert (found.slow_with, found.other_with) == (3, 1)
    found = cause_of(FAULTS, [8.0, 3.0, 8.0, 4.0, 3.9], [0.6, 0.6, 0.6, 0.0, 0.0])
    assert (found.slow_with, found.other_with) == (2, 1)


def test_what_the_peers_have_too_does_not_count() -> None:
    found = cause_of(WAIT, [0.5] * 5, [0.6, 0.6, 0.6, 0.0, 0.0], beyond=[0.3, 0.1, 0.3, 0.0, 0.0])
    assert (found.slow_with, found.other_with, found.in_slow) == (2, 0, 50.0)


def test_stretches_of_which_nothing_is_known_count_nowhere() -> None:
    found = cause_of(WAIT, [0.5, NAN, 0.3, NAN, 0.0], [0.6, 0.5, 0.4, 0.0, 0.0])
    assert (found.slow, found.other, found.time_share) == (2, 1, pytest.approx(0.8 / 3))
    unknown = cause_of(WAIT, [NAN] * 5, [0.6] * 5)
    assert (unknown.slow, math.isnan(unknown.in_slow), math.isnan(unknown.time_share)) == (0, True, True)


# -- from when on a stretch is slow --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "least"), [([0.1, 0.1, 0.8], 0.4), ([0.2, 0.4, 0.4], 0.2), ([0.0, 0.0, 0.0], 0.0),
                         ([-5.0, NAN, 0.6], 0.3), ([0.25, 0.25, 0.25, 0.75], 0.125)],
)  # fmt: skip
def test_a_stretch_is_slow_from_half_of_where_most_time_is_lost(share: list[float], least: float) -> None:
    assert least_slow(np.array(share)) == pytest.approx(least)


# -- which counter -------------------------------------------------------------------------------------------


def one(counter: int, worth: float, chance: float = 0.001) -> Coincidence:
    return Coincidence(counter, 0.9, 0.9, worth, chance)


def test_of_counters_that_do_as_well_the_most_specific_is_stated() -> None:
    what = seen_of(WAIT, STEAL)
    for worth, counter in ((0.8, 0), (0.79, 1)):
        both = [one(0, worth), one(1, 1.0)]
        found = preferred(what, both, both)
        assert found is not None
        assert found.counter == counter


def test_a_counter_that_tells_time_comes_before_one_that_tells_none() -> None:
    what = seen_of(FAULTS, WAIT)
    both = [one(0, 1.0), one(1, 0.5)]
    assert preferred(what, both, both) == both[1]
    assert preferred(what, both[:1], both) == both[0]
    assert preferred(what, [], both) is None


def test_what_brings_about_the_cause_comes_before_it_if_it_states_most_of_the_delay() -> None:
    what = seen_of(QUOTA, WAIT)
    quota, wait = one(0, 0.6, chance=0.5), one(1, 0.9)
    assert preferred(what, [wait], [quota, wait]) == quota._replace(chance=0.001)
    assert preferred(what, [wait], [one(0, 0.0), wait]) == wait
    assert preferred(what, [quota], [quota, wait]) == quota


# -- whether it is stated ------------------------------------------------------------------------------------


def is_stated(name: str, *, n: int = 100, states: float = 1.0, noise: float = 0.0) -> bool:
    """Tell whether a counter is the cause that rank 0 of 4 is slow now and then, in so many stretches.

    Args:
        name: the counter, which is 0 on the other ranks.
        n: the number of stretches.
        states: the part of the delay that it states.
        noise: by how much it varies by itself, compared with that.
    """
    rng = np.random.default_rng(5)
    is_slow = np.cumsum(rng.uniform(size=n) < 0.2) % 2 > 0
    delay = Delay((0,), 0.3 * is_slow, is_slow, np.full(n, 1000.0))
    begin_s = np.tile(np.arange(float(n))[:, None], (1, 4))
    what = seen_of(name)
    (cause_and_counter,) = what.counters
    shown = np.zeros((1, n, 4))
    shown[0, :, 0] = states * np.maximum(delay.share + 0.3 * noise * rng.normal(size=n), 0.0)
    stretches = Stretches(np.arange(n), begin_s, begin_s + 1.0)
    found = _explained(Seen(stretches, [cause_and_counter], shown, 8.0, 4.0), delay, STANDARD).cause
    return found is not None


@pytest.mark.parametrize(("n", "are_enough"), [(25, True), (24, False)])
def test_a_cause_goes_with_the_delays_better_than_at_ninety_nine_of_a_hundred_other_places(
    n: int, are_enough: bool
) -> None:
    assert is_stated(WAIT, n=n) is are_enough


@pytest.mark.parametrize(("states", "is_cause"), [(0.51, True), (0.49, False)])
def test_a_cause_that_tells_time_states_half_of_the_delay(states: float, is_cause: bool) -> None:
    assert is_stated(WAIT, states=states) is is_cause


@pytest.mark.parametrize(("noise", "is_cause"), [(0.9, True), (1.0, False)])
def test_a_cause_has_a_correlation_of_a_half_with_the_delay(noise: float, is_cause: bool) -> None:
    assert is_stated(FAULTS, noise=noise) is is_cause


@pytest.mark.parametrize(
    ("states", "peers", "worth"),
    [(1.0, 0.0, 1.0), (0.8, 0.0, 0.8), (2.0, 0.0, 0.5), (0.8, 0.05, 0.75), (0.4, 0.0, 0.0), (1.0, NAN, 0.0)],
)
def test_what_covers_the_delay_of_a_rank_that_is_always_slow_is_worth_most_if_it_is_all_of_it_and_no_more(
    states: float, peers: float, worth: float
) -> None:
    delay = Delay((0,), np.full(40, 0.5), np.ones(40, np.bool_), np.full(40, 100.0))
    shown = np.full((40, 4), peers * 0.5 if peers else 0.0)
    shown[:, 0] = states * 0.5
    found = _covering(7, shown, delay, STANDARD)
    assert (found.counter, found.worth) == (7, pytest.approx(worth))
    assert found.covered == pytest.approx(states - (0.0 if math.isnan(peers) else peers))


@pytest.mark.parametrize(
    ("name", "its", "peers", "is_its_own"),
    [
        (WAIT, 0.5, 0.25, True), (WAIT, 0.5, 0.26, False), (WAIT, 0.24, 0.0, False), (WAIT, 9.0, 8.7, True),
        (FAULTS, 0.5, 0.24, True), (FAULTS, 0.5, 0.25, False), (FAULTS, 0.01, 0.0, True),
        (FAULTS, 9.0, 8.7, False),
    ],
)  # fmt: skip
def test_time_that_covers_half_of_a_delay_or_twice_the_events_of_any_peer_are_a_ranks_own(
    name: str, its: float, peers: float, is_its_own: bool
) -> None:
    what, half = seen_of(name), STANDARD.min_covered_share
    shown = np.array([[[its, peers, 0.0]] * 2 + [[0.0, 9.0, 9.0]]])
    late = np.array([0.25 / half, 0.25 / half, 0.0])
    delay = Delay((0,), late, np.array([True, True, False]), np.full(3, 100.0))
    assert _is_its_own(replace(what, shown=shown), delay, one(0, 1.0), STANDARD) is is_its_own
