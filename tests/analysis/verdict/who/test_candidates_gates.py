"""What a candidate may be, by the gates that it passes: named, named beside another, suspected."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hand_made_cases import POLICY, candidate_of, case_of, steps, times_of

from timing_logger.analysis.verdict.who.candidates import (
    COST,
    GAP,
    LONGER,
    PEERS,
    STEPS,
    WAITED,
    Z,
    _take_hardly_any_time,
    candidates,
    gates_of,
    n_steps_needed,
    operation_of,
    unlogged_between,
)
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, least_z
from timing_logger.results.facts import Gate

VISIBLE = Gate(COST, POLICY.visible_cost_share, 0.01, True)
FAILS_STEPS = Gate(STEPS, 1.0, 20.0, False)


def gap(value: float) -> Gate:
    return Gate.at_least(GAP, value, 0.10)


def gates_by_name(**changed: object) -> dict[str, Gate]:
    """Return the gates of rank 0 of 4 that is slow in 20 of 40 steps."""
    given = {
        "slow": SlowSteps(0, np.arange(20), "bounded", 0.5, 10.0), "levels": np.array([0.5, 0.0, 0.0, 0.0]),
        "scores": np.array([0.5, 1.0, 1.0, 1.0]), "cost_share": 0.1, "n_steps": 40, "policy": POLICY,
    }  # fmt: skip
    return {gate.name: gate for gate in gates_of(**{**given, **changed})}  # type: ignore[arg-type]


# -- what it may be ----------------------------------------------------------------------------------------


def test_a_rank_may_be_named_if_it_passes_all_gates_and_not_if_it_fails_one() -> None:
    passed = Gate(Z, 4.0, 3.5, True)
    assert candidate_of(gates=[passed, VISIBLE]).may_be_named
    assert not candidate_of(gates=[passed, FAILS_STEPS]).may_be_named


@pytest.mark.parametrize(("value", "may"), [(0.05, True), (0.049, False), (0.2, True)])
def test_beside_another_a_rank_may_be_named_that_is_slower_by_half_of_what_matters(
    value: float, may: bool
) -> None:
    assert candidate_of(gates=[gap(value)]).may_be_named_beside_another is may


def test_a_rank_that_fails_another_gate_is_not_named_beside_another() -> None:
    other = Gate(COST, 0.2, 0.3, False)
    assert not candidate_of(gates=[gap(0.08), other]).may_be_named_beside_another


@pytest.mark.parametrize(
    ("cost_share", "value", "n_slow", "may"),
    [
        (0.05, 0.075, 10, True), (0.049, 0.075, 10, False), (0.05, 0.074, 10, False), (0.05, 0.075, 9, False),
    ],
)  # fmt: skip
def test_a_rank_slow_by_little_is_suspected_if_it_visibly_costs_in_enough_steps(
    cost_share: float, value: float, n_slow: int, may: bool
) -> None:
    gates = [Gate(COST, cost_share, 0.01, True), gap(value)]
    assert candidate_of(at=np.arange(n_slow), gates=gates).may_be_suspected is may


@pytest.mark.parametrize(("n_slow", "may"), [(10, True), (9, False)])
def test_a_rank_slow_in_too_few_steps_is_suspected_if_they_are_enough_for_a_costly_one(
    n_slow: int, may: bool
) -> None:
    assert candidate_of(at=np.arange(n_slow), gates=[VISIBLE, FAILS_STEPS]).may_be_suspected is may


def test_a_rank_that_lasted_is_suspected_however_few_its_slow_steps_are() -> None:
    assert candidate_of(at=np.arange(3), gates=[Gate(STEPS, 3.0, 3.0, True)]).may_be_suspected


@pytest.mark.parametrize("name", [PEERS, STEPS])
def test_a_rank_that_fails_a_minor_gate_is_suspected(name: str) -> None:
    assert candidate_of(gates=[VISIBLE, Gate(name, 1.0, 3.5, False)]).may_be_suspected


@pytest.mark.parametrize("name", [COST, LONGER])
def test_a_rank_that_fails_a_gate_of_what_it_costs_is_not_suspected(name: str) -> None:
    assert not candidate_of(gates=[Gate(name, 0.001, 0.01, False)]).may_be_suspected


@pytest.mark.parametrize("are_single", [True, False])
def test_only_single_steps_may_be_suspected_though_chance_gathers_them(are_single: bool) -> None:
    gates = [VISIBLE, Gate(Z, 1.0, 3.5, False)]
    assert candidate_of(gates=gates, are_single=are_single).may_be_suspected is are_single


def test_few_single_steps_may_be_suspected() -> None:
    assert candidate_of(at=steps(3, 9), gates=[Gate(Z, 1.0, 3.5, False)], are_single=True).may_be_suspected


@pytest.mark.parametrize(("waited_share", "may"), [(0.05, True), (0.049, False)])
def test_a_rank_for_which_others_wait_in_part_is_suspected_if_that_part_is_visible(
    waited_share: float, may: bool
) -> None:
    candidate = candidate_of(gates=[VISIBLE, Gate(WAITED, 0.3, 0.5, False)], waited_share=waited_share)
    assert (candidate.is_waited_for, candidate.may_be_suspected) == (may, may)


def test_a_rank_is_waited_for_if_it_is_unknown_and_not_if_either_gate_of_waiting_fails() -> None:
    assert candidate_of(gates=[VISIBLE]).is_waited_for
    assert not candidate_of(gates=[Gate(LONGER, 0.0, 0.01, False)]).is_waited_for
    assert not candidate_of(gates=[Gate(WAITED, 0.0, 0.5, False)]).is_waited_for


def test_single_steps_last_by_their_chance_and_stretches_by_their_number() -> None:
    fails_z, fails_steps = Gate(Z, 1.0, 3.0, False), Gate(STEPS, 1.0, 20.0, False)
    assert not candidate_of(gates=[fails_z], are_single=True).lasted
    assert candidate_of(gates=[fails_steps], are_single=True).lasted
    assert candidate_of(gates=[fails_z]).lasted
    assert not candidate_of(gates=[fails_steps]).lasted


def test_a_rank_is_slow_by_little_where_its_gap_fails_and_dear_where_its_cost_passes() -> None:
    assert candidate_of(gates=[gap(0.09)]).is_by_little
    assert not candidate_of(gates=[gap(0.10)]).is_by_little
    assert candidate_of(gates=[VISIBLE]).is_dear
    assert not candidate_of(gates=[Gate(COST, 0.001, 0.01, False)]).is_dear


def test_the_cost_is_what_was_beyond_the_peers_without_what_was_below_them() -> None:
    assert candidate_of(at=steps(0, 1, 2), excess_ms=np.array([3.0, -2.0, 4.0])).cost_ms == 7.0


# -- its gates ---------------------------------------------------------------------------------------------


def test_a_stretch_has_a_gate_for_its_number_of_steps_and_single_steps_have_none() -> None:
    assert list(gates_by_name()) == [Z, PEERS, GAP, COST, STEPS]
    single = SlowSteps(0, np.arange(20), "intermittent", 0.5, 10.0, are_single=True)
    assert list(gates_by_name(slow=single)) == [Z, PEERS, GAP, COST]
    assert gates_by_name(slow=single)[Z].bound == least_z(single, POLICY)


def test_the_gap_is_the_part_of_its_time_by_which_the_typical_peer_is_quicker() -> None:
    found = gates_by_name(scores=np.array([0.8, 1.0, 0.9, np.nan]))[GAP]
    assert found.value == pytest.approx(1 - 0.8 / 0.95)


def test_the_gap_to_peers_of_which_nothing_is_known_is_unknown() -> None:
    found = gates_by_name(scores=np.array([0.8, np.nan, np.nan, np.nan]))[GAP]
    assert (math.isnan(found.value), found.passed) == (True, False)


@pytest.mark.parametrize(("n_steps", "bound"), [(10, 0.10), (9, 0.35)])
def test_of_few_steps_a_larger_gap_is_asked(n_steps: int, bound: float) -> None:
    assert gates_by_name(n_steps=n_steps)[GAP].bound == bound


def test_z_among_the_peers_is_relative_to_how_far_they_are_apart_and_at_least_to_the_least_noise() -> None:
    spread = np.array([1.0, 0.0, 0.1, 0.3])
    assert gates_by_name(levels=spread)[PEERS].value == pytest.approx((1.0 - 0.1) / (1.4826 * 0.1))
    assert gates_by_name()[PEERS].value == pytest.approx(0.5 / POLICY.min_noise_sigma)
    assert gates_by_name()[PEERS].bound == POLICY.min_z


@pytest.mark.parametrize(("sigmas", "passed"), [(3.51, True), (3.49, False)])
def test_a_rank_is_three_and_a_half_deviations_from_its_peers(sigmas: float, passed: bool) -> None:
    spread = np.array([0.1 + sigmas * 1.4826 * 0.1, 0.0, 0.1, 0.3])
    assert gates_by_name(levels=spread)[PEERS].passed is passed


def test_one_known_peer_alone_has_no_spread_and_two_have() -> None:
    nan = math.nan
    assert PEERS not in gates_by_name(levels=np.array([1.0, 0.0, nan, nan]))
    assert PEERS in gates_by_name(levels=np.array([1.0, 0.0, 0.1, nan]))


def test_the_gates_of_cost_and_steps_hold_the_figures_and_the_bounds_of_the_policy() -> None:
    found = gates_by_name(cost_share=0.05)
    assert found[COST][1:] == (0.05, POLICY.min_cost_share, True)
    assert found[STEPS][1:] == (20.0, 20.0, True)


@pytest.mark.parametrize(
    ("cost_share", "n_steps", "needed"),
    [(0.0, 99, 20), (0.01, 99, 20), (0.07, 99, 15), (0.08, 99, 13), (0.5, 99, 10), (0.01, 12, 12)],
)
def test_fewer_slow_steps_are_enough_the_more_they_cost(cost_share: float, n_steps: int, needed: int) -> None:
    assert n_steps_needed(cost_share, 10, 20, n_steps) == needed


# -- who is one --------------------------------------------------------------------------------------------


def test_the_costliest_candidate_comes_first_with_its_time_beyond_the_peers() -> None:
    self_ms = np.full((60, 5), 10.0)
    self_ms[:, 1], self_ms[:, 3] = 15.0, 20.0
    found = [one for one in candidates(case_of(self_ms)) if not one.slow.are_single]
    assert [(one.column, one.cost_ms) for one in found] == [(3, 600.0), (1, 300.0)]
    assert [(one.score, one.waited_share) for one in found] == [(0.5, 0.0), (pytest.approx(2 / 3), 0.0)]
    assert {gate.name: gate.value for gate in found[0].gates}[COST] == pytest.approx(0.6)


def test_a_column_among_all_ranks_is_not_that_within_its_role() -> None:
    self_ms = np.full((60, 6), 10.0)
    self_ms[:, 5] = 20.0
    found = candidates(case_of(self_ms, roles=["a", "a", "a", "b", "b", "b"]))
    assert [(one.role, one.column, one.slow.column, one.columns.tolist()) for one in found] == [
        ("b", 5, 2, [3, 4, 5])
    ]


def test_a_role_of_one_rank_has_no_candidate() -> None:
    self_ms = np.full((60, 3), 10.0)
    self_ms[:, 2] = 90.0
    assert candidates(case_of(self_ms, roles=["a", "a", "b"])) == []


def test_of_two_ranks_the_slower_one_is_a_candidate() -> None:
    self_ms = np.full((60, 2), 10.0)
    self_ms[:, 1] = 20.0
    assert [one.column for one in candidates(case_of(self_ms))] == [1]


def test_steps_in_which_hardly_anything_was_done_show_no_rank_to_be_slow() -> None:
    self_ms = np.full((60, 4), 10.0)
    self_ms[:30] = 0.01
    self_ms[:30, 2] = 0.09
    assert candidates(case_of(self_ms)) == []


def test_steps_that_take_just_a_hundredth_of_a_long_one_show_how_slow_a_rank_is() -> None:
    its_ms = np.array([[1.0], [0.99], [100.0], [100.0]])
    assert _take_hardly_any_time(its_ms, POLICY).tolist() == [False, True, False, False]


def test_steps_in_which_a_slow_rank_is_quicker_than_its_peers_do_not_lower_its_cost() -> None:
    self_ms = np.full((60, 4), 10.0)
    self_ms[:, 1] = 20.0
    self_ms[30, 1] = 5.0
    (found,) = candidates(case_of(self_ms))
    assert {gate.name: gate.value for gate in found.gates}[COST] == pytest.approx(0.59)


@pytest.mark.parametrize(("n_saves", "are_found"), [(1, False), (2, True)])
def test_what_a_rank_does_alone_is_its_own_from_the_second_time_on(n_saves: int, are_found: bool) -> None:
    work_ms, save_ms = np.full((20, 3), 10.0), np.zeros((20, 3))
    save_ms[[4, 9][:n_saves], 1] = 5.0
    case = case_of(
        work_ms + save_ms, operations=["FORWARD", "SAVE"], operation_ms=np.stack([work_ms, save_ms])
    )
    found = [one.slow for one in candidates(case) if one.slow.z == np.inf]
    assert [one.steps.tolist() for one in found] == ([[4, 9]] if are_found else [])
    assert all(one.are_single and one.column == 1 for one in found)
    assert [one.level for one in found] == pytest.approx([math.log(1.5)] * are_found)


def test_what_two_ranks_do_is_no_ranks_own() -> None:
    work_ms, save_ms = np.full((20, 4), 10.0), np.zeros((20, 4))
    save_ms[[4, 9], [1, 2]] = 5.0
    case = case_of(
        work_ms + save_ms, operations=["FORWARD", "SAVE"], operation_ms=np.stack([work_ms, save_ms])
    )
    assert [one for one in candidates(case) if one.slow.z == np.inf] == []


# -- in what it loses its time -----------------------------------------------------------------------------


def test_the_operation_is_that_with_most_time_beyond_the_peers_in_the_slow_steps() -> None:
    operation_ms = np.full((3, 40, 4), 10.0)
    operation_ms[1, :20, 0] += 3.0
    operation_ms[2, :20, 0] += 1.0
    operation_ms[0, 20:, 0] += 90.0
    times = times_of(operation_ms.sum(axis=0), operations=["A", "B", "C"], operation_ms=operation_ms)
    assert operation_of(times, candidate_of()) == ("B", pytest.approx(0.75))


def test_operations_below_the_peers_do_not_count_and_without_any_excess_the_part_is_unknown() -> None:
    operation_ms = np.full((2, 40, 4), 10.0)
    operation_ms[0, :20, 0] -= 2.0
    times = times_of(operation_ms.sum(axis=0), operations=["A", "B"], operation_ms=operation_ms)
    assert operation_of(times, candidate_of()) == ("B", pytest.approx(math.nan, nan_ok=True))
    operation_ms[1, :20, 0] += 0.04
    assert operation_of(times, candidate_of()) == ("B", 1.0)


def test_unlogged_time_counts_beyond_that_of_the_peers() -> None:
    pairs = [{("A", "B"): 9.0, ("B", "C"): 1.5}, {("A", "B"): 8.6}, {("A", "B"): 8.6}, {("A", "B"): 8.6}]
    times = times_of(np.ones((40, 4)), unlogged_ms=[defaultdict(float, its) for its in pairs])
    assert unlogged_between(times, candidate_of()) == ("B", "C")


def test_the_least_unlogged_time_beyond_the_peers_tells_a_pair() -> None:
    times = times_of(np.ones((40, 2)), unlogged_ms=[{("A", "B"): 4.5}, {("A", "B"): 4.0}])
    assert unlogged_between(times, candidate_of(n_ranks=2)) == ("A", "B")


def test_unlogged_time_at_a_place_where_the_peers_have_none_tells_a_pair() -> None:
    times = times_of(np.ones((40, 2)), unlogged_ms=[{("A", "B"): 0.5}, {}])
    assert unlogged_between(times, candidate_of(n_ranks=2)) == ("A", "B")


def test_without_unlogged_time_beyond_the_peers_there_is_no_pair() -> None:
    times = times_of(np.ones((40, 2)), unlogged_ms=[{("A", "B"): 4.0}, {("A", "B"): 4.0}])
    assert unlogged_between(times, candidate_of(n_ranks=2)) == ()
