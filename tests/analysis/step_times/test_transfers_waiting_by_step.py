"""Waits by step and rank: how much of them recurs, and how much is beyond that."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from account_rows import Row, barrier, row, table

from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.step_times.transfers import Shape, Waits, _varying_ms

Wait = tuple[int, int, int, float]
"""Who waited, for whom, in which step, and for how many ms."""

RANKS = 3


def varying_ms(waits: list[Wait], n_steps: int) -> list[float]:
    """Return how long others waited for each rank, and for none, beyond what each waited in most steps."""
    of: Any = SimpleNamespace(shape=Shape(n_steps, RANKS))
    by, owner, step, ms = (np.array(column) for column in zip(*waits, strict=True))
    return _varying_ms(of, owner, by, step, ms.astype(np.float64)).tolist()


def test_what_a_rank_waits_for_another_in_most_steps_does_not_vary() -> None:
    waits = [(0, 1, step, ms) for step, ms in enumerate([2.0, 2.0, 9.0, 2.0, 2.0])]
    assert varying_ms(waits, n_steps=5) == pytest.approx([0.0, 7.0, 0.0, 0.0])


def test_the_waits_of_a_rank_in_one_step_are_one() -> None:
    waits = [(0, 1, step, 1.0) for step in range(4) for _ in range(3)]
    assert varying_ms([*waits, (0, 1, 2, 5.0)], n_steps=4) == pytest.approx([0.0, 5.0, 0.0, 0.0])


def test_waits_in_half_of_the_steps_do_not_recur_those_in_more_do() -> None:
    in_half = [(0, 1, step, 2.0) for step in range(3)]
    assert varying_ms(in_half, n_steps=6)[1] == pytest.approx(6.0)
    assert varying_ms([*in_half, (0, 1, 5, 2.0)], n_steps=6)[1] == pytest.approx(0.0)


def test_where_most_waits_are_short_only_that_much_recurs() -> None:
    waits = [(0, 1, step, ms) for step, ms in enumerate([4.0, 4.0, 1.0, 1.0])]
    assert varying_ms(waits, n_steps=4)[1] == pytest.approx(6.0)


def test_a_step_with_less_waiting_than_recurs_makes_up_for_no_other() -> None:
    waits = [(0, 1, step, ms) for step, ms in enumerate([2.0, 2.0, 2.0, 9.0, 1.0])]
    assert varying_ms(waits, n_steps=5)[1] == pytest.approx(7.0)


def test_what_recurs_is_told_of_each_pair_of_ranks_for_itself() -> None:
    waits = [(by, owner, step, 1.0 + by) for step in range(4) for by, owner in ((0, 1), (2, 1), (0, RANKS))]
    assert varying_ms(waits, n_steps=4) == pytest.approx([0.0] * 4)
    more = [(0, 1, 0, 5.0), (2, 1, 1, 6.0), (0, RANKS, 2, 7.0)]
    assert varying_ms([*waits, *more], n_steps=4) == pytest.approx([0.0, 11.0, 0.0, 7.0])


# -- what ranks did while they were blocked ----------------------------------------------------------------


def waits_of(*rows: Row, uncertainty_s: float = 0.0) -> Waits:
    return step_times(table(*rows, uncertainty_s=uncertainty_s)).waits


def test_who_waits_and_for_whom_is_told_of_each_step_and_the_rest_of_a_call_is_transfer() -> None:
    found = waits_of(
        *barrier([1, 4, 6], 8, seq=0, iteration=3), *barrier([13, 11, 11], 14, seq=1, iteration=4)
    )
    assert found.own_ms == pytest.approx(np.array([[5, 2, 0], [0, 2, 2]]))
    assert found.for_it_ms == pytest.approx(np.array([[0, 0, 7], [4, 0, 0]]))
    assert found.longest_ms == pytest.approx(np.array([[0, 0, 5], [2, 0, 0]]))
    assert found.transfer_ms == pytest.approx(np.array([[2, 2, 2], [1, 1, 1]]))
    assert found.unmatched_ms.tolist() == [[0, 0, 0]] * 2


def test_transfers_count_only_in_collectives_that_all_leave_together() -> None:
    of = {"group_size": 2, "iteration": 0}
    message = [row(0, "SEND", 10, 11, peer=1, **of), row(1, "RECV", 10, 14, peer=0, **of)]
    found = waits_of(*barrier([1, 1], 3, iteration=0), *message)
    assert found.transfer_ms == pytest.approx(np.array([[2, 2]]))
    assert found.own_ms == pytest.approx(np.array([[0, 0]]))


@pytest.mark.parametrize(("operation", "unmatched_ms"), [("ALLREDUCE", 4.0), ("MPI_INIT", 0.0)])
def test_what_no_other_rank_has_a_row_of_is_not_matched_unless_it_is_of_the_set_up(
    operation: str, unmatched_ms: float
) -> None:
    alone = row(0, operation, 10, 14, group="other", group_size=2, iteration=0)
    found = waits_of(*barrier([1, 1], 3, iteration=0), alone)
    assert found.unmatched_ms == pytest.approx(np.array([[unmatched_ms, 0]]))


def test_of_ranks_whose_communication_was_not_matched_nothing_else_is_known() -> None:
    alone = row(1, "ALLREDUCE", 10, 14, group="other", group_size=2, iteration=1)
    found = waits_of(*barrier([1, 1], 3, iteration=0), alone)
    assert np.isnan(found.own_ms).tolist() == [[False, False], [True, True]]
    assert np.isnan(found.transfer_ms).tolist() == [[False, False], [True, True]]


def test_outside_of_any_step_nothing_counts() -> None:
    found = waits_of(*barrier([1, 1], 3, iteration=0), *barrier([11, 14], 15, seq=1, iteration=math.nan))
    assert found.own_ms.tolist() == [[0, 0]]
    assert found.transfer_ms == pytest.approx(np.array([[2, 2]]))


def test_transfers_may_be_wrong_by_how_well_clocks_are_compared() -> None:
    rows = [*barrier([1, 1], 3, seq=0, iteration=0), *barrier([11, 11], 14, seq=1, iteration=0)]
    assert waits_of(*rows, uncertainty_s=1e-4).clock_ms == pytest.approx(np.array([[0.2, 0.2]]))
    assert np.isnan(waits_of(*rows, uncertainty_s=math.nan).clock_ms).all()


def test_of_operations_in_the_background_the_one_that_waited_longest_is_told() -> None:
    rows = [
        row(rank, "IALLREDUCE", begin, end, seq=seq, group_size=2, iteration=0)
        for seq, starts, end in ((0, (1, 4), 6), (1, (11, 12), 20), (2, (22, 21), 29))
        for rank, begin in enumerate(starts)
    ]
    assert waits_of(*rows).pending_ms == pytest.approx(np.array([[3, 1]]))


def test_an_operation_in_the_background_waited_no_longer_than_it_took() -> None:
    of = {"group_size": 2, "iteration": 0}
    rows = row(0, "IALLREDUCE", 1, 3, **of), row(1, "IALLREDUCE", 5, 6, **of)
    assert waits_of(*rows, uncertainty_s=0.01).pending_ms == pytest.approx(np.array([[2, 0]]))


def test_a_rank_one_of_whose_threads_waits_for_another_is_waited_for_by_no_other_rank() -> None:
    of = {"group_size": 2, "iteration": 0, "peer": 0}
    itself = row(0, "RECV", 11, 16, **of), row(0, "SEND", 15, 16, thread="other", **of)
    found = waits_of(*barrier([1, 1], 3, iteration=0), *itself)
    assert found.own_ms == pytest.approx(np.array([[4, 0]]))
    assert found.for_it_ms.tolist() == [[0, 0]]
    assert (found.varying_ms.tolist(), found.recurring_ms.tolist()) == ([0, 0, 0], [0, 0, 0])
