"""Which ranks are worth a repair, and in what: those that take more than their peers, however little."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from timing_logger.analysis.counterfactual.what_if import by_excess, operation_of
from timing_logger.results.plain import UNLOGGED


def worth_a_repair(*of_ranks_ms: float, quicker: float = 1.0) -> list[int]:
    """Return the ranks that take more than their peers, which take this long in each of three steps."""
    times = SimpleNamespace(ranks=range(len(of_ranks_ms)), self_ms=np.tile(of_ranks_ms, (3, 1)))
    case: Any = SimpleNamespace(times=times, by_role={"": np.arange(len(of_ranks_ms))})
    return by_excess(case, np.full((3, 1), quicker))


def test_ranks_that_take_most_beyond_their_peers_come_first() -> None:
    assert worth_a_repair(10.0, 14.0, 10.0, 12.0) == [1, 3]


def test_a_rank_that_takes_a_little_more_than_its_peers_is_among_them() -> None:
    assert worth_a_repair(10.0, 10.2, 10.0) == [1]


def test_where_all_take_as_long_there_is_none() -> None:
    assert worth_a_repair(10.0, 10.0, 10.0) == []


def test_a_rank_is_compared_with_the_ranks_of_its_role() -> None:
    times = SimpleNamespace(ranks=range(4), self_ms=np.tile([10.0, 30.0, 12.0, 30.0], (3, 1)))
    by_role = {"first": np.array([0, 2]), "last": np.array([1, 3])}
    case: Any = SimpleNamespace(times=times, by_role=by_role)
    assert by_excess(case, np.ones((3, 1))) == [2]


def test_a_step_in_which_a_rank_is_quicker_makes_up_for_none_in_which_it_is_not() -> None:
    self_ms = np.array([[10.0, 10, 10, 14], [10, 10, 10, 2], [10, 10, 10, np.nan]])
    case: Any = SimpleNamespace(
        times=SimpleNamespace(ranks=range(4), self_ms=self_ms), by_role={"": np.arange(4)}
    )
    assert by_excess(case, np.ones((3, 1))) == [3]


# -- in what ---------------------------------------------------------------------------------------------

OF_RANKS_MS = {"DATA": [5.0, 1, 7, 5, 7], "FORWARD": [3.0, 1, 9, 3, 9], UNLOGGED: [1.0, 1, 6, 1, 5]}
"""Of three ranks of one role, ranks 0, 2 and 3, and two others."""


def slow_in(column: int, *repaired: str) -> str:
    operation_ms = np.array([np.tile(ms, (4, 1)) for ms in OF_RANKS_MS.values()])
    times = SimpleNamespace(operations=list(OF_RANKS_MS), operation_ms=operation_ms)
    case: Any = SimpleNamespace(times=times, by_role={"": np.array([0, 2, 3]), "other": np.array([1, 4])})
    return operation_of(case, column, set(repaired))


@pytest.mark.parametrize(
    ("repaired", "operation"),
    [([], "FORWARD"), (["FORWARD"], UNLOGGED), (["FORWARD", UNLOGGED], "DATA"), ([*OF_RANKS_MS], "")],
)
def test_it_is_the_operation_with_most_beyond_the_peers_of_those_that_are_left(
    repaired: list[str], operation: str
) -> None:
    assert slow_in(2, *repaired) == operation


def test_it_is_told_however_little_that_is() -> None:
    operation_ms = np.array([np.tile([1.0, 1.5, 1.0], (3, 1))])
    times = SimpleNamespace(operations=[UNLOGGED], operation_ms=operation_ms / 10)
    case: Any = SimpleNamespace(times=times, by_role={"": np.arange(3)})
    assert operation_of(case, 1, set()) == UNLOGGED


def test_a_rank_that_takes_no_more_than_its_peers_is_slow_in_nothing() -> None:
    assert [slow_in(0), slow_in(4)] == ["", "FORWARD"]


def test_time_without_rows_counts_as_an_operation_where_the_times_are_without_it() -> None:
    work_ms, gap_ms = np.full((1, 4, 3), 5.0), np.full((1, 4, 3), 1.0)
    gap_ms[0, :, 1] = 4.0
    by_gaps = SimpleNamespace(operations=["DATA", UNLOGGED], operation_ms=np.concatenate([work_ms, gap_ms]))
    times = SimpleNamespace(operations=["DATA"], operation_ms=work_ms, by_gaps=lambda: by_gaps)
    case: Any = SimpleNamespace(times=times, by_role={"": np.arange(3)})
    assert operation_of(case, 1, set()) == UNLOGGED
