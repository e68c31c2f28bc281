"""Which counters tell why a rank is slow, by hand: whom it is compared with, and where its own stand out."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, steps

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.causes.coincidence import Coincidence, Delay
from timing_logger.analysis.verdict.causes.search import (
    _above_peers,
    _compared,
    _covering,
    _delay_of,
    _has_usual,
    _is_its_own,
    _stands_out,
)
from timing_logger.analysis.verdict.causes.seen import Stretches

NAN = math.nan


def delay_of(share: Floats, is_slow: Any) -> Delay:
    return Delay((0,), share, np.asarray(is_slow), np.full(len(share), 100.0))


# -- whom it is compared with ------------------------------------------------------------------------------


def test_a_rank_is_compared_with_those_of_its_role_that_are_not_slow() -> None:
    case = case_of(np.ones((5, 7)), roles=["b", "a", "a", "a", "a", "a", "b"])
    assert _compared(case, 3, [3, 4]).tolist() == [3, 1, 2, 5]
    assert _compared(case, 3, [1, 2, 3, 4, 5]).tolist() == [3]


def test_of_many_peers_15_are_compared_from_the_first_to_the_last() -> None:
    found = _compared(case_of(np.ones((5, 40))), 7, [7]).tolist()
    assert len(found) == len(set(found)) == 16
    assert (found[0], found[1], found[-1]) == (7, 0, 39)


def test_a_delay_is_the_time_beyond_the_peers_over_all_steps_that_the_recorded_ones_stand_for() -> None:
    self_ms = np.full((7, 4), 10.0)
    self_ms[1:3, 2], self_ms[4, 2], self_ms[6, 2] = 30.0, 13.0, 20.0
    stretches = Stretches(
        np.array([-1, 0, 0, 1, 1, 2, 2]), np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [3.0]])
    )
    what: Any = SimpleNamespace(stretches=stretches)
    case = case_of(self_ms, roles=["b", "a", "a", "a"], recorded_every=10)
    found = _delay_of(case, what, 2, steps(1, 2, 4))
    assert found.ranks == (2,)
    assert found.share.tolist() == pytest.approx([0.4, 0.03, 0.1])
    assert found.length_ms.tolist() == [1000.0] * 3
    assert found.is_slow.tolist() == [True, False, False]  # the second is delayed too little, the third usual


@pytest.mark.parametrize(
    ("n", "n_usual", "has"), [(10, 3, True), (10, 2, False), (100, 5, True), (100, 4, False)]
)
def test_a_rank_has_stretches_to_compare_with_if_three_or_a_twentieth_are_usual(
    n: int, n_usual: int, has: bool
) -> None:
    is_slow = np.arange(n) >= n_usual
    assert _has_usual(delay_of(np.ones(n), is_slow), POLICY) is has
    unknown = np.where(np.arange(n) < n_usual, NAN, 1.0)
    assert not _has_usual(delay_of(unknown, is_slow), POLICY)


# -- where its own stand out -------------------------------------------------------------------------------


def is_its_own(own: float, *peers: float, of_time: bool) -> bool:
    """Tell whether a counter is a rank's own that is late by half of each of the slow stretches."""
    shown = np.tile([own, *peers], (4, 1))
    shown[3] = 99.0  # where it is not slow
    what: Any = SimpleNamespace(shown=shown[None], of_time=np.array([0] if of_time else [], np.int64))
    found = Coincidence(0, 1.0, 1.0, 1.0, 0.0)
    return _is_its_own(what, delay_of(np.full(4, 0.5), [True, True, True, False]), found, POLICY)


def test_time_is_its_own_that_is_above_all_peers_by_half_of_the_delay() -> None:
    assert is_its_own(0.5, 0.0, 0.25, of_time=True)
    assert not is_its_own(0.5, 0.0, 0.26, of_time=True)
    assert is_its_own(0.25, NAN, of_time=True)
    assert not is_its_own(0.24, 0.0, of_time=True)


def test_events_are_its_own_that_are_more_than_twice_those_of_any_peer() -> None:
    assert is_its_own(8.0, 3.0, 0.0, of_time=False)
    assert not is_its_own(8.0, 4.0, 0.0, of_time=False)
    assert not is_its_own(0.0, 0.0, of_time=False)


def test_a_counter_is_above_the_highest_of_the_peers_that_are_known() -> None:
    shown = np.array([[0.5, 0.1, 0.3], [0.5, NAN, 0.2], [0.5, NAN, NAN], [NAN, 0.1, 0.1]])
    assert _above_peers(shown).tolist() == pytest.approx([0.2, 0.3, 0.5, NAN], nan_ok=True)


@pytest.mark.parametrize(
    ("peers", "stands_out"),
    [([0.0, 0.25], True), ([0.0, 0.26], False), ([0.1, NAN], False), ([0.1], False), ([0.1, 0.1, NAN], True)],
)
def test_a_rank_stands_out_from_two_peers_by_as_much_as_they_are_apart(
    peers: list[float], stands_out: bool
) -> None:
    shown = np.tile([0.5, *peers], (8, 1))
    assert _stands_out(shown, np.full(8, 0.25), POLICY) is stands_out


@pytest.mark.parametrize(("n_above", "stands_out"), [(6, True), (5, False)])
def test_a_rank_is_above_its_peers_in_three_quarters_of_the_stretches(n_above: int, stands_out: bool) -> None:
    shown, above = np.full((8, 3), 0.1), np.where(np.arange(8) < n_above, 1.0, 0.0)
    assert _stands_out(shown, above, POLICY) is stands_out


def covering(above: float, late: float, *, n: int = 8) -> Coincidence:
    """Return what a counter covers of a rank's delay in so many stretches of which both are known."""
    shown = np.tile([0.25 + above, 0.25, 0.25], (8, 1))
    return _covering(3, shown, delay_of(np.where(np.arange(8) < n, late, NAN), [True] * 8), POLICY)


def test_a_counter_is_worth_most_that_covers_the_delay_and_no_more() -> None:
    for above, covered, worth in ((0.5, 1.0, 1.0), (0.25, 0.5, 0.5), (1.0, 2.0, 0.5), (0.125, 0.25, 0.0)):
        found = covering(above, 0.5)
        assert (found.counter, found.covered, found.worth) == (3, covered, worth)
        assert math.isnan(found.chance)


def test_it_covers_nothing_where_less_than_three_stretches_are_known_or_nobody_is_late() -> None:
    assert covering(0.5, 0.5, n=3).worth == 1.0
    assert (covering(0.5, 0.5, n=2).covered, covering(0.5, 0.5, n=2).worth) == (0.0, 0.0)
    assert (covering(0.5, 0.0).covered, covering(0.5, -1.0).worth) == (0.0, 0.0)
