"""Pricing step by step: each step lasts as long as its slowest rank, and no more is saved than was waited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hand_made_cases import POLICY, candidate_of, case_of, steps, times_of, waits_of

from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.who.candidates import COST, LONGER, STEPS, WAITED, Candidate
from timing_logger.analysis.verdict.who.culprits import waiting_gate, with_waiting
from timing_logger.analysis.verdict.who.pricing import (
    ByReplay,
    BySteps,
    Repair,
    Slowed,
    _shows_who_waits,
    pricing_of,
    slowed,
    waited_for_ms,
)
from timing_logger.results.facts import Gate

DEAR = Gate(COST, 0.1, 0.01, True)
CHEAP = Gate(COST, 0.001, 0.01, False)
UNMINDED = Gate(WAITED, 0.1, 0.5, False)
FEW = Gate(STEPS, 1.0, 20.0, False)
TWICE = math.log(2)


def by_steps(self_ms: Floats, **waits: Floats) -> BySteps:
    known = {"longest_ms": np.full(self_ms.shape, 1000.0), **waits}
    columns = [np.arange(self_ms.shape[1])]
    return BySteps(times_of(self_ms, waits=waits_of(self_ms.shape, **known)), columns)


def slow(column: int, *at: int, gates: tuple[Gate, ...] = (DEAR,), **changed: Any) -> Candidate:
    return candidate_of(column, steps(*at), gates=gates, level=TWICE, **changed)


def twice_as_long(*at: int, column: int = 0) -> Floats:
    self_ms = np.full((6, 4), 10.0)
    self_ms[list(at), column] = 20.0
    return self_ms


# -- what they cost ----------------------------------------------------------------------------------------


def test_the_slow_steps_are_those_of_the_candidates_columns() -> None:
    assert [(one.column, one.steps.tolist()) for one in slowed([slow(3, 1, 4)])] == [(3, [1, 4])]


def test_others_wait_for_a_rank_in_its_slow_steps_and_those_after_them() -> None:
    longest_ms = np.arange(24.0).reshape(6, 4)
    found = by_steps(np.ones((6, 4)), longest_ms=longest_ms)
    ones = [Slowed(1, steps(0, 1)), Slowed(0, steps(5)), Slowed(2, steps(3))]
    assert found.harm_ms(ones).tolist() == [1 + 5 + 9, 20, 14 + 18]


@pytest.mark.parametrize(("unmatched_ms", "is_unknown"), [(6.0, False), (6.1, True)])
def test_it_is_unknown_how_long_others_waited_where_more_of_their_time_tells_nothing(
    unmatched_ms: float, is_unknown: bool
) -> None:
    longest_ms, of_others_ms = np.full((6, 4), 3.0), np.zeros((6, 4))
    of_others_ms[2, 1], of_others_ms[2, 0] = unmatched_ms, 99.0
    found = by_steps(np.ones((6, 4)), longest_ms=longest_ms, unmatched_ms=of_others_ms)
    assert np.isnan(found.harm_ms([Slowed(0, steps(2))])).tolist() == [is_unknown]


def test_it_is_unknown_how_long_others_waited_where_nothing_is_known_of_any_slow_step() -> None:
    longest_ms = np.full((6, 4), 3.0)
    longest_ms[1, 0] = np.nan
    found = by_steps(np.ones((6, 4)), longest_ms=longest_ms)
    assert np.isnan(found.harm_ms([Slowed(0, steps(1)), Slowed(0, steps(1, 2))])).tolist() == [True, False]


def test_a_slow_rank_saves_what_the_slowest_of_each_step_is_shorter_without_it() -> None:
    self_ms = twice_as_long(1, 2)
    self_ms[2, 3] = 15.0
    chosen = [slow(0, 1, 2)]
    assert by_steps(self_ms).saved_ms(chosen, chosen) == pytest.approx(10.0 + 5.0)


def test_no_more_is_saved_than_others_waited_if_that_is_known() -> None:
    chosen = [slow(0, 1, 2)]
    of_ranks_ms = np.zeros((6, 4))
    of_ranks_ms[1, 0] = 7.0
    assert by_steps(twice_as_long(1, 2), longest_ms=of_ranks_ms).saved_ms(chosen, chosen) == 7.0
    unknown = by_steps(twice_as_long(1, 2), longest_ms=of_ranks_ms * np.nan)
    assert unknown.saved_ms(chosen, chosen) == pytest.approx(20.0)


def test_a_rank_that_nobody_waits_for_makes_no_step_longer_unless_it_is_chosen() -> None:
    times, unminded = times_of(twice_as_long(1)), slow(0, 1, gates=(DEAR, UNMINDED))
    assert waited_for_ms(times, [unminded])[1, 0] == pytest.approx(10.0)
    assert waited_for_ms(times, [unminded], [unminded])[1, 0] == 20.0
    assert waited_for_ms(times, [slow(0, 1)])[1, 0] == 20.0


def test_the_chosen_explain_their_part_of_what_all_lasting_ranks_lose() -> None:
    self_ms = twice_as_long(1)
    self_ms[3, 2] = 20.0
    one, other = slow(0, 1), slow(2, 3)
    assert by_steps(self_ms).explained([one], [one, other]) == pytest.approx(0.5)
    assert by_steps(self_ms).explained([one, other], [one, other]) == pytest.approx(1.0)


def test_ranks_that_were_slow_in_too_few_steps_lose_nothing_that_is_to_be_explained() -> None:
    self_ms = twice_as_long(1)
    self_ms[3, 2] = 20.0
    one = slow(0, 1)
    for other in (slow(2, 3, gates=(FEW,)), slow(2, 3, gates=(UNMINDED,))):
        assert by_steps(self_ms).explained([one], [one, other]) == pytest.approx(1.0)


def test_where_nothing_is_lost_the_part_that_is_explained_is_unknown() -> None:
    one = candidate_of(0, steps(1), level=0.0)
    assert math.isnan(by_steps(np.full((6, 4), 10.0)).explained([one], [one]))


def test_peers_that_are_slower_in_the_same_steps_are_part_of_what_is_lost() -> None:
    self_ms, ratios = twice_as_long(1, 2), np.zeros((6, 4))
    self_ms[1:3, 1] = 40.0
    ratios[1:3, 1] = math.log(4)
    one = slow(0, 1, 2, ratios=ratios)
    assert by_steps(self_ms).explained([one], [one]) == 0.0


def test_a_step_that_is_long_for_all_ranks_counts_as_long_as_usual() -> None:
    self_ms = twice_as_long(1, 3)
    self_ms[3] *= 100.0
    self_ms[1, 2] = 20.0
    one, other = slow(0, 1, 3), slow(2, 1)
    assert by_steps(self_ms).explained([one], [one, other]) == pytest.approx(0.5)


def test_a_step_that_is_short_for_all_ranks_counts_no_longer_than_it_was() -> None:
    self_ms = twice_as_long(1)
    self_ms[1] /= 10.0
    self_ms[3, 2] = 20.0
    one, other = slow(0, 1), slow(2, 3)
    assert by_steps(self_ms).explained([one], [one, other]) == pytest.approx(1 / 11)


def test_the_price_of_a_rank_in_all_steps_is_how_long_others_waited_for_it() -> None:
    longest_ms = np.array([[1.0, 2.0], [np.nan, 4.0], [5.0, 6.0]])
    found = by_steps(np.ones((3, 2)), longest_ms=longest_ms)
    assert (found.price_of_all_ms(0), found.price_of_all_ms(1)) == (6.0, 12.0)


def test_steps_do_not_tell_what_a_transfer_was_in_the_way_of() -> None:
    assert math.isnan(by_steps(np.ones((3, 2))).saved_by_transfers_ms(np.zeros(1), np.zeros(1)))


def test_a_step_ends_when_its_slowest_rank_does_with_each_repair() -> None:
    self_ms = twice_as_long(1, 2)
    self_ms[4] = np.nan
    none = np.ones((6, 4))
    repairs = [
        Repair(none), Repair(2 * none), Repair(none, (Slowed(0, steps(1)),)), Repair(none, all_usual=True),
        Repair(none, (Slowed(1, steps(1, 2)),)),
    ]  # fmt: skip
    ends_s = by_steps(self_ms).ends_s(repairs)
    assert (1e3 * ends_s).T.tolist() == [
        pytest.approx(its) for its in (
            [10, 30, 50, 60, 60, 70], [5, 15, 25, 30, 30, 35], [10, 20, 40, 50, 50, 60],
            [10, 20, 30, 40, 40, 50], [10, 30, 50, 60, 60, 70],
        )
    ]  # fmt: skip


def test_peers_are_those_of_the_same_role() -> None:
    self_ms = np.full((6, 4), 10.0)
    self_ms[:, 2:] = 30.0
    found = BySteps(times_of(self_ms), [np.arange(2), np.arange(2, 4)])
    assert 1e3 * found.ends_s([Repair(np.ones((6, 4)), all_usual=True)])[-1, 0] == pytest.approx(180.0)


def test_all_own_times_are_divided_by_a_factor_and_other_times_may_be_priced() -> None:
    factor = np.ones((6, 4))
    factor[1, 0], factor[2] = 4.0, 2.0
    found = by_steps(twice_as_long(1))
    assert found.saved_if_quicker_ms(factor) == 10.0 + 5.0
    assert found.on(times_of(twice_as_long())).saved_if_quicker_ms(factor) == 5.0
    assert found.at_equal_work(times_of(twice_as_long()), factor).saved_if_quicker_ms(factor) == 5.0


# -- whether others wait for them ---------------------------------------------------------------------------


def test_candidates_that_are_dear_get_a_gate_of_waiting_and_cheap_ones_none() -> None:
    longest_ms = np.zeros((6, 4))
    longest_ms[1, 0], longest_ms[1, 1] = 1.0, 0.99
    case, pricing = case_of(np.ones((6, 4))), by_steps(np.ones((6, 4)), longest_ms=longest_ms)
    ms = np.array([2.0])
    ones = [slow(0, 1, excess_ms=ms), slow(1, 1, excess_ms=ms), slow(2, 1, gates=(CHEAP,))]
    found = with_waiting(case, ones, pricing)
    assert [[gate.passed for gate in one.gates if gate.name == WAITED] for one in found] == [
        [True], [False], []
    ]  # fmt: skip
    assert [one.waited_share for one in found] == pytest.approx([0.001, 0.00099, 0.0])
    assert with_waiting(case, ones[2:], pricing) == ones[2:]


def test_where_it_is_unknown_how_long_others_waited_there_is_no_gate() -> None:
    pricing = by_steps(np.ones((6, 4)), longest_ms=np.full((6, 4), np.nan))
    one = slow(0, 1)
    assert with_waiting(case_of(np.ones((6, 4))), [one], pricing) == [one]


class Replayed(ByReplay):
    """Prices of a run played again that is 30 ms longer for each rank, of which named ones save 20 ms."""

    def __init__(self, *saved_ms: float) -> None:
        self._saved_ms = np.array(saved_ms)

    def harm_ms(self, ones: Sequence[Slowed]) -> Floats:
        return np.full(len(ones), 30.0)

    def saved_of_each_ms(self, sets: Sequence[Sequence[Slowed]]) -> Floats:
        self.sets = [[one.column for one in each] for each in sets]
        return self._saved_ms[: len(sets)]


@pytest.mark.parametrize(("ms", "passed"), [(10.0, True), (9.0, False)])
def test_where_the_run_is_played_again_it_must_be_longer_for_the_rank(ms: float, passed: bool) -> None:
    gate = waiting_gate(case_of(np.ones((6, 4))), slow(0, 1), ms, Replayed(20.0))
    assert (gate.name, gate.bound, gate.passed) == (LONGER, POLICY.min_cost_share, passed)


def test_where_the_run_is_played_again_no_share_is_said_to_be_waited() -> None:
    found = with_waiting(case_of(np.ones((6, 4))), [slow(0, 1)], Replayed(20.0))
    assert (found[0].waited_share, found[0].gates[-1].value) == (0.0, 0.03)


def test_a_replay_tells_what_part_of_the_loss_of_all_lasting_ranks_the_chosen_explain() -> None:
    pricing = Replayed(20.0, 80.0)
    assert pricing.explained([slow(0, 1)], [slow(2, 1), slow(3, 1, gates=(FEW,))]) == 0.25
    assert pricing.sets == [[0], [0, 2]]
    assert math.isnan(Replayed(20.0, 0.0).explained([slow(0, 1)], []))


# -- what prices a run --------------------------------------------------------------------------------------


def program(n_lines: int, meetings: list[list[int]]) -> Any:
    """Return a program in which each line has one node, and gives to and needs the meetings it is in."""
    owner = np.array([line for its in meetings for line in its], np.int64)
    number = np.repeat(np.arange(len(meetings)), [len(its) for its in meetings])
    lists = Lists.by(owner, number, n_lines)
    none = Lists.by(np.zeros(0, np.int64), np.zeros(0, np.int64), n_lines)
    done = SimpleNamespace(took_s=np.zeros(len(meetings)))
    return SimpleNamespace(line=np.arange(n_lines), gives=lists, needs=none, done=done)


@pytest.mark.parametrize(
    ("meetings", "all_are"),
    [
        ([[0, 1, 2, 3]], True), ([[0, 1], [1, 2], [2, 3]], True), ([[0, 1], [2, 3]], False),
        ([[0, 1], [2, 3], [0, 3]], True), ([[0, 1, 2]], False), ([], False),
    ],
)  # fmt: skip
def test_ranks_are_held_together_if_their_meetings_connect_all_of_them(
    meetings: list[list[int]], all_are: bool
) -> None:
    assert _shows_who_waits(program(4, meetings), 4, np.arange(4)) is all_are


def test_a_run_that_cannot_be_played_again_is_priced_step_by_step() -> None:
    assert not pricing_of(case_of(np.ones((6, 4)))).plays_again
