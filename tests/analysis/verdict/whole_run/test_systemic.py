"""What no single rank explains, by hand: slow roles, time lost in turn, and for whom ranks waited."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hand_made_cases import case_of, times_of, waits_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.whole_run.systemic import (
    _covered,
    _longest_operation,
    _slower_in,
    diffuse,
    late_ms,
    most_of,
    whole_role,
    with_unexplained_waits,
)
from timing_logger.results.facts import LostToSlowest, SlowRole
from timing_logger.results.verdict import Verdict

# -- most of a time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_ranks", "lost_ms", "ranks"),
    [
        (9, [1, 1, 6, 1, 1, 1, 0, 0, 0], (2,)), (9, [1, 1, 5, 1, 1, 1, 0, 0, 0], (2, 0)),
        (9, [3, 3, 3, 2, 2, 1, 1, 1, 1], (0, 1, 2)), (9, [3, 3, 2, 2, 2, 1, 1, 1, 1], ()),
        (8, [3, 3, 3, 2, 2, 1, 1, 1], ()), (6, [3, 3, 1, 1, 1, 1], (0, 1)), (5, [3, 3, 1, 1, 1], ()),
        (2, [1, 3], (1,)), (2, [2, 2], ()), (3, [0, 0, 0], ()), (20, [3, 3, 3, 3, 3] + [1] * 15, ()),
    ],
)  # fmt: skip
def test_most_of_a_time_goes_to_few_ranks_or_to_none(
    n_ranks: int, lost_ms: Sequence[float], ranks: tuple[int, ...]
) -> None:
    assert most_of(range(n_ranks), np.array(lost_ms, np.float64)) == ranks


def test_what_is_of_no_rank_goes_to_none() -> None:
    assert most_of([7, 8, 9], np.array([1.0, 0.0, 0.0, 5.0])) == ()
    assert most_of([7, 8, 9], np.array([5.0, 0.0, 0.0, 1.0])) == (7,)


# -- late in turn -------------------------------------------------------------------------------------------


def test_the_slowest_of_each_step_is_late_by_what_it_takes_beyond_the_typical_rank() -> None:
    nan = math.nan
    self_ms = np.array([[5.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, nan], [nan] * 3, [4.0, 1.0, 1.0]])
    assert late_ms(case_of(self_ms)).tolist() == [7.0, 1.0, 0.0]


def test_of_several_roles_the_slowest_one_is_typical() -> None:
    self_ms = np.array([[1.0, 1.0, 4.0, 3.0, 3.0]])
    assert late_ms(case_of(self_ms, roles=["a", "a", "b", "b", "b"])).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def in_turn(lost_ms: float) -> Case:
    """Return 20 steps of 100 ms for 4 ranks, each of which is late in turn by so much."""
    self_ms = np.full((20, 4), 100.0)
    self_ms[np.arange(20), np.arange(20) % 4] += lost_ms
    return case_of(self_ms, wall_ms=2500.0)


@pytest.mark.parametrize(
    ("lost_ms", "without_owner", "verdict"),
    [
        (34.0, False, "diffuse"), (33.0, False, "healthy"), (33.0, True, "diffuse"),
        (6.25, True, "diffuse"), (6.2, True, "healthy"),
    ],
)  # fmt: skip
def test_time_that_is_lost_to_nobody_in_particular_is_told_if_it_is_much_or_visible_and_without_owner(
    lost_ms: float, without_owner: bool, verdict: str
) -> None:
    found = diffuse(in_turn(lost_ms), without_owner)
    lost = lost_ms / (100.0 + lost_ms)
    assert (found.verdict, found.gates[0].value) == (verdict, pytest.approx(lost))
    assert (found.gates[0].bound, found.gates[0].passed) == (0.25, lost > 0.25)
    if verdict == "diffuse":
        assert (found.cost_ms, found.waited_for) == (pytest.approx(20 * lost_ms), ())
        assert found.evidence == (LostToSlowest(found.gates[0].value, ()),)


def test_a_quarter_that_is_lost_is_not_too_much() -> None:
    self_ms = np.full((20, 4), 75.0)
    self_ms[np.arange(20), np.arange(20) % 4] = 100.0
    found = diffuse(case_of(self_ms), without_owner=False)
    assert (found.verdict, found.gates[0].value, found.gates[0].passed) == ("healthy", 0.25, False)


def test_time_that_is_lost_to_one_rank_is_told_with_it() -> None:
    self_ms = np.full((20, 4), 100.0)
    self_ms[:, 3] = 160.0
    assert diffuse(case_of(self_ms), without_owner=True).waited_for == (3,)


def test_in_a_run_without_times_nothing_is_lost() -> None:
    found = diffuse(case_of(np.full((3, 2), math.nan)), without_owner=True)
    assert (found.verdict, math.isnan(found.gates[0].value)) == ("healthy", True)


def test_waits_that_nothing_explains_are_means_over_the_ranks_with_those_waited_for() -> None:
    waits = waits_of(
        (3, 4), varying_ms=np.array([40.0, 0.0, 0.0, 0.0, 0.0]),
        recurring_ms=np.array([0.0, 0.0, 80.0, 0.0, 0.0]), unmatched_ms=np.full((3, 4), 10.0),
    )  # fmt: skip
    found = with_unexplained_waits(Verdict(verdict="healthy"), times_of(np.ones((3, 4)), waits=waits))
    assert (found.not_explained, found.waited_for) == (0.01, (0,))
    assert (found.recurring, found.recurring_for, found.unmatched) == (0.02, (2,), pytest.approx(0.03))


# -- a slow role --------------------------------------------------------------------------------------------

ROLES = ["a", "a", "b", "b", "c", "c"]


def of_roles(factor: float, n_slow: int = 40, **changed: object) -> Case:
    """Return 40 steps of three roles, of which the second takes longer in the first steps."""
    self_ms = np.full((40, 6), 10.0)
    self_ms[:n_slow, 2:4] *= factor
    return case_of(self_ms, roles=ROLES, **changed)


@pytest.mark.parametrize(("factor", "is_slow"), [(1.34, True), (1.33, False)])
def test_a_role_is_slow_that_takes_a_third_longer_than_the_others(factor: float, is_slow: bool) -> None:
    found = whole_role(of_roles(factor))
    assert (found is not None) == is_slow
    if found is not None:
        assert (found.verdict, found.ranks, found.labels, found.operation) == ("role", (2, 3), "b", "FORWARD")
        assert (found.window, found.slow_steps, found.score) == ("persistent", 40, pytest.approx(1 / 1.34))
        assert found.cost_ms == pytest.approx(40 * 3.4)
        assert found.evidence == (SlowRole("b", (2, 3), pytest.approx(1.34)),)


@pytest.mark.parametrize(("n_slow", "is_slow"), [(20, True), (19, False)])
def test_a_role_must_be_slow_in_enough_steps(n_slow: int, is_slow: bool) -> None:
    assert (whole_role(of_roles(2.0, n_slow)) is not None) == is_slow


def test_one_role_alone_is_not_slow_and_rows_that_hide_waiting_say_nothing() -> None:
    assert whole_role(case_of(np.full((40, 4), 10.0))) is None
    operations = {"operations": ["A", "UNLOGGED"], "operation_ms": np.full((2, 40, 6), 5.0)}
    assert whole_role(of_roles(2.0, from_gaps=True, **operations)) is None
    assert whole_role(of_roles(2.0, from_gaps=True)) is not None


@pytest.mark.parametrize(("between_ms", "is_slow"), [(40.0, True), (41.0, False), (math.nan, True)])
def test_rows_must_cover_half_of_the_time_of_the_role_unless_that_is_unknown(
    between_ms: float, is_slow: bool
) -> None:
    assert (whole_role(of_roles(2.0, gap_ms=np.full((40, 6), between_ms))) is not None) == is_slow


def with_hidden_waiting(work_ms: float, hidden_ms: float) -> Case:
    """Return roles of which the second works twice as long, and the others wait for it in another row."""
    operation_ms = np.full((2, 40, 8), work_ms)
    operation_ms[0, :, 2:4] *= 2
    operation_ms[1] = work_ms + hidden_ms
    operation_ms[1, :, 2:4] = hidden_ms
    return case_of(
        operation_ms.sum(axis=0),
        roles=[*ROLES, "d", "d"],
        operations=["WORK", "CLIP"],
        operation_ms=operation_ms,
    )


@pytest.mark.parametrize(("hidden_ms", "is_slow"), [(20.0, True), (20.1, False)])
def test_a_role_is_slow_in_operations_that_are_half_of_its_work(hidden_ms: float, is_slow: bool) -> None:
    found = whole_role(with_hidden_waiting(10.0, hidden_ms))
    assert (found is not None) == is_slow
    if found is not None:
        assert (found.ranks, found.operation) == ((2, 3), "WORK")


def test_operations_in_which_a_role_is_slower_are_those_that_all_roles_have() -> None:
    operation_ms = np.array([[[1.0, 2.0, 1.0]], [[0.0, 5.0, 1.0]], [[2.0, 2.0, 2.0]], [[1.0, 3.0, 1.0]]])
    assert _slower_in(operation_ms, 1).tolist() == [0, 3]
    assert _slower_in(operation_ms, 0).tolist() == []


def test_covered_is_the_part_of_the_time_between_communication_where_both_are_known() -> None:
    gap_ms = np.array([[4.0, 4.0], [math.nan, math.nan], [6.0, 6.0]])
    times, columns = times_of(np.ones((3, 2)), gap_ms=gap_ms), np.arange(2)
    assert _covered(times, columns, np.array([2.0, 9.0, 3.0])) == 0.5
    assert _covered(times, columns, np.array([2.0, 9.0, math.nan])) == 0.5
    assert math.isnan(_covered(times_of(np.ones((3, 2)), gap_ms=0 * gap_ms), columns, np.ones(3)))


def test_the_longest_operation_is_that_beyond_what_all_ranks_do() -> None:
    operation_ms: Floats = np.full((2, 4, 6), 10.0)
    operation_ms[1, :2, 2:4], operation_ms[0, 2:, 2:4] = 12.0, 90.0
    times = times_of(operation_ms.sum(axis=0), operations=["A", "B"], operation_ms=operation_ms)
    assert _longest_operation(times, np.arange(2), np.array([2, 3])) == "B"
    assert _longest_operation(times, np.arange(4), np.array([2, 3])) == "A"
    none = times_of(np.ones((4, 6)), operations=[], operation_ms=np.zeros((0, 4, 6)))
    assert _longest_operation(none, np.arange(2), np.array([2, 3])) == ""
